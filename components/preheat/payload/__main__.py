"""The Job's entry point: `python3 -m payload`, with the request in PREHEAT_REQUEST.

It turns whatever happens into one line, one status file and one exit code; no traceback reaches the log unasked.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback

from .certificates import VARIABLE as CA_BUNDLE
from .certificates import believing
from .errors import Exit, PreheatError, Stopped
from .progress import Progress, size
from .request import VARIABLE, Request, parse
from .run import Preheat
from .sources import open_source
from .turn import Turn

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


def main() -> int:
    """Run the preheat that the environment asks for; its exit code."""
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
        turn = Turn(request.private)
        turn.check()
        with believing(os.environ.get(CA_BUNDLE)):
            result = Preheat(request, open_source(request, progress, stop), progress, stop).run()
        turn.note()
    except PreheatError as failure:
        return _failed(progress, failure)
    except Stopped:
        message = "stopped as asked; what has arrived stays, the next run goes on from there"
        progress.end("stopped", message, code=Exit.STOPPED)
        return Exit.STOPPED
    except OSError as error:
        return _failed(progress, _explained(error, request))
    except Exception as error:  # noqa: BLE001 - the last line of defence: a fault of ours, told as one
        if os.environ.get("PREHEAT_DEBUG"):
            traceback.print_exc()
        remedy = "this is a fault of inferplan; run once more with PREHEAT_DEBUG=1 and report what it prints"
        return _failed(progress, PreheatError(Exit.SOURCE, f"{type(error).__name__}: {error}", remedy))
    total = result.manifest.bytes
    progress.begin("ready", total, total)
    count = len(result.manifest.entries)
    message = f"READY: {request.directory}, {count} files, {size(total)} verified, {size(result.moved)} moved"
    progress.end("ready", message, code=Exit.READY, directory=request.directory, files=count)
    return Exit.READY


def _failed(progress: Progress, failure: PreheatError) -> int:
    progress.end("failed", f"not READY: {failure}", code=failure.code, failure=failure.record())
    return failure.code


def _explained(error: OSError, request: Request) -> PreheatError:
    where = str(error.filename) if error.filename else str(request.target)
    if error.errno in _FULL:
        remedy = "free some: remove old models or lower preheat.keep, or name a larger share"
        return PreheatError(Exit.TARGET, "the share is full", remedy, file=where)
    if error.errno in _DENIED:
        remedy = f"export the share writable for user {os.getuid()} (chown it on the server, or set preheat.runAsUser)"
        return PreheatError(Exit.TARGET, "the share does not let this user write", remedy, file=where, found=error.strerror)
    remedy = "look at the share and its server; what has arrived stays, the next run goes on"
    return PreheatError(Exit.TARGET, "the share failed", remedy, file=where, found=error.strerror or str(error))


if __name__ == "__main__":
    sys.exit(main())
