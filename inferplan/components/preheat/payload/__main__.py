"""The Job's entry point: `python3 -m payload`, with the request in PREHEAT_REQUEST.

Every run ends with one line, one status file and one exit code; tracebacks reach the log only with PREHEAT_DEBUG.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from .certificates import VARIABLE as CA_BUNDLE
from .certificates import extra_cas
from .disk import write
from .errors import Exit, PreheatError, Stopped
from .progress import Progress, size
from .request import VARIABLE, Request, parse
from .run import preheat
from .source import NOT_VERIFIABLE
from .sources import open_source
from .target import full

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


def main() -> int:
    os.umask(0o022)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        request = parse(os.environ.get(VARIABLE), os.environ.get("POD_NAMESPACE", ""))
    except PreheatError as failure:
        sys.stderr.write(f"preheat: {failure}\n")
        return failure.code
    progress = Progress(request.job, request.private, request.report_seconds)
    with progress:
        return _run(request, progress, stop)


def _run(request: Request, progress: Progress, stop: threading.Event) -> int:
    try:
        node = _Node(request.private)
        node.check()
        with extra_cas(os.environ.get(CA_BUNDLE)):
            result = preheat(request, open_source(request, progress, stop), progress, stop)
        node.record()
    except PreheatError as failure:
        return _failed(progress, failure)
    except Stopped:
        progress.end("stopped", "stopped as asked; what has arrived stays, the next run continues from there", code=Exit.STOPPED)
        return Exit.STOPPED
    except OSError as error:
        return _failed(progress, _explained(error, request, progress))
    except Exception as error:  # noqa: BLE001 - an error of this program ends with a status file too
        if os.environ.get("PREHEAT_DEBUG"):
            traceback.print_exc()
        remedy = "this is an error of inferplan; run once more with PREHEAT_DEBUG=1 and report what it prints"
        return _failed(progress, PreheatError(Exit.SOURCE, f"{type(error).__name__}: {error}", remedy))
    total = result.manifest.bytes
    progress.begin("ready", total, total)
    count = len(result.manifest.entries)
    message = f"READY: {request.directory}, {count} files, {size(total)} verified, {size(result.moved)} moved"
    unverifiable = sum(entry.evidence == NOT_VERIFIABLE for entry in result.manifest.entries)
    if unverifiable:
        message += f"; not verifiable: {unverifiable} files, because the server sends no checksum, ETag or Last-Modified"
    progress.end("ready", message, code=Exit.READY, directory=request.directory, files=count, notVerifiable=unverifiable)
    return Exit.READY


def _failed(progress: Progress, failure: PreheatError) -> int:
    progress.end("failed", f"not READY: {failure}", code=failure.code, failure=failure.record())
    return failure.code


def _explained(error: OSError, request: Request, progress: Progress) -> PreheatError:
    place = str(error.filename) if error.filename else str(request.target)
    if error.errno in _FULL:
        return full(request, progress.left)
    if error.errno in _DENIED:
        remedy = f"export the share writable for user {os.getuid()} (chown it on the server, or set preheat.runAsUser)"
        if (owner := _other_owner(place)) is not None:
            remedy = f"{owner} was made by another user, as a kubelet does for a subPath: run chown -R {os.getuid()}:{os.getgid()} on it"
        return PreheatError(Exit.TARGET, "the share does not let this user write", remedy, file=place, found=error.strerror)
    remedy = "look at the share and its server; what has arrived stays, the next run continues"
    return PreheatError(Exit.TARGET, "the share failed", remedy, file=place, found=error.strerror or str(error))


def _other_owner(place: str) -> str | None:
    """Return the nearest existing directory of `place` if it belongs to root and this user cannot write to it."""
    path = next((each for each in (Path(place), *Path(place).parents) if each.is_dir()), None)
    if path is None or os.getuid() == 0 or path.stat().st_uid != 0 or os.access(path, os.W_OK):
        return None
    return str(path)


class _Node:
    """Which of a Job's pods filled this node's disk; it limits nothing unless Kubernetes gave the pod an index.

    Kubernetes keeps the pods of one Job apart only while they run: while a node cannot be used, the pod that waits for it is put
    on a node whose pod has ended. That pod would find everything READY, and the other node would stay empty.
    """

    def __init__(self, private: Path) -> None:
        self._index = os.environ.get("JOB_COMPLETION_INDEX")
        self._path = private / "turns" / (os.environ.get("JOB_NAME") or "job")

    def check(self) -> None:
        """Raise PreheatError(TARGET) when another pod of the same Job has filled this node."""
        filled = self._path.read_text().strip() if self._path.is_file() else None
        if self._index is not None and filled not in (None, self._index):
            problem = f"pod {filled} of this Job has filled this node already, so the node that pod {self._index} was meant for has no copy"
            remedy = "look for a node of the pool that is cordoned, not ready or full (kubectl get nodes), or state fewer nodes"
            raise PreheatError(Exit.TARGET, problem, remedy)

    def record(self) -> None:
        if self._index is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for old in self._path.parent.iterdir():
            if old.name != self._path.name and old.name.rpartition("-")[0] == self._path.name.rpartition("-")[0]:
                old.unlink(missing_ok=True)
        write(self._path, f"{self._index}\n")


if __name__ == "__main__":
    sys.exit(main())
