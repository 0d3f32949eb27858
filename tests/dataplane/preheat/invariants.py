"""What holds at any moment of any preheat, whatever fails: docs/preheat-invariants.md, as
assertions.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inferplan.components.preheat.payload.file_checks import wanted
from inferplan.components.preheat.payload.source import parse_sums
from inferplan.components.sources import ObjectStore, VolumeClaim, WebStore

from .rig import MODEL, Job

TRY_AGAIN = (4, 5, 6, 143)
CHANGE_SOMETHING = (2, 3)
KILLED = -9

_sha256s: dict[tuple[object, ...], str] = {}

LISTS_OF_A_SOURCE = ("SHA256SUMS", "READY", "READY.sizes")

published: defaultdict[str, list[Mapping[str, bytes]]] = defaultdict(list)
"""Every version of each source that the running test has published so far, by the address of the
model's directory.
"""


def publish(address: str, files: Mapping[str, bytes], *, whole: bool = False) -> None:
    """Record a version of a source: `files` alone if they are the `whole` of it, else over those of
    the version before.
    """
    earlier = {} if whole or not published[address] else published[address][-1]
    published[address].append({**earlier, **files})


def address_of(job: Job) -> str:
    """The address under which the source of a Job is published, "" where its versions are not
    recorded.
    """
    path = job.weights.get("path", MODEL)
    match job.source:
        case ObjectStore(bucket=bucket, prefix=prefix):
            return f"{bucket}/{prefix}/{path}"
        case WebStore(address=url):
            return f"{url}/{path}"
        case VolumeClaim() if "/source" in job.mounts:
            return str(job.mounts["/source"] / path)
    return ""


def requested(job: Job, version: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a version that a Job asks for."""
    globs = job.preheat.get("include", ()), job.preheat.get("exclude", ())
    names = job.weights.get("files") or version
    if isinstance(job.source, WebStore) and "SHA256SUMS" in version and names is version:
        names = parse_sums(version["SHA256SUMS"].decode())
    return {
        path: data
        for path, data in version.items()
        if path in names and path not in LISTS_OF_A_SOURCE and wanted(path, *globs)
    }


def good_copies(target: Path) -> dict[Path, dict[str, str]]:
    """The sha256 of each file of every directory of a share whose READY names exactly its files,
    and the content of its own name.
    """
    copies = {}
    for mark in target.glob("*/*/READY"):
        directory = mark.parent
        try:
            manifest = json.loads(mark.read_text())
            named = {each["path"]: each["sha256"] for each in manifest["files"]}
            files = {path: sha256_of(directory / path) for path in files_below(directory)}
        except (OSError, ValueError, KeyError):
            continue
        content = ".".join(directory.parts[-2:]).rpartition("-r")[0]
        if files == named and manifest["content"] == content:
            copies[directory] = files
    return copies


def files_below(directory: Path) -> list[str]:
    """Files of a READY directory by path, without the READY files and what an NFS client keeps of
    an open file.
    """
    paths = (
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    )
    return [
        path
        for path in paths
        if path not in ("READY", "READY.damaged", "READY.sizes") and not path.startswith(".nfs")
    ]


def sha256_of(path: Path) -> str:
    """The sha256 of a file; a file that did not change is read once."""
    status = path.stat()
    identity = (path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if identity not in _sha256s:
        _sha256s[identity] = hashlib.sha256(path.read_bytes()).hexdigest()
    return _sha256s[identity]


def check_ready(job: Job) -> None:
    """Invariant 1: READY names exactly the files below it, with their bytes; they are one recorded
    version, if there is any.
    """
    if not job.ready:
        return
    named = {
        each["path"]: each["sha256"]
        for each in json.loads((job.directory / "READY").read_text())["files"]
    }
    files = {path: sha256_of(job.directory / path) for path in files_below(job.directory)}
    assert named == files, f"READY names other files: {job.directory}"
    versions = [
        {path: hashlib.sha256(data).hexdigest() for path, data in requested(job, version).items()}
        for version in published.get(address_of(job), ())
    ]
    assert not versions or files in versions, (
        f"READY stands over no version of {address_of(job)}: {sorted(files)}"
    )


class Invariants:
    """Checks the invariants of every Job of one test: whenever a run starts or ends, and when the
    test has ended.

    The test's own damage is known from the state in which the first of several runs at once begins.
    `repeats` says whether the last run of a Job is repeated at the end of the test, by its exit
    code.
    """

    def __init__(self, repeats: Callable[[int], bool] = lambda _code: True) -> None:
        self._repeats = repeats
        self.about = ""
        """What has happened so far, for a test whose steps are random."""
        self._good: dict[Path, dict[Path, dict[str, str]]] = {}
        self._running: list[Any] = []
        self._last: dict[tuple[Path, str], tuple[Job, int]] = {}

    def started(self, job: Job, process: Any) -> None:
        """Note the good copies on the share of a run that begins."""
        if self._running:
            self._check_copies(job.target)
        self._good[job.target] = good_copies(job.target)
        self._running.append(process)

    def ended(self, job: Job, process: Any, code: int, output: str | None) -> None:
        """Check all three invariants as far as the end of a run shows them."""
        self._running.remove(process)
        about = f"exit code {code}; {self.about}: {output}"
        assert code in (0, KILLED, *TRY_AGAIN, *CHANGE_SOMETHING), about
        if output is not None:
            assert "Traceback" not in output, about
            assert code in (0, KILLED) or "; " in output or "stopped as asked" in output, (
                f"what to do is missing; {about}"
            )
        if code == 0:
            assert job.ready, about
            check_ready(job)
        self._check_copies(job.target)
        if code != KILLED:
            self._last[job.target, str(job.directory)] = job, code

    def check(self, job: Job) -> None:
        """Check READY and the good copies now, between two runs."""
        check_ready(job)
        self._check_copies(job.target)

    def finish(self, repair: Callable[[], None]) -> None:
        """Check READY of every Job, and that the exit code of each last run was right. `repair`
        ends the faults of the sources.
        """
        last = list(self._last.values())
        for job, _code in last:
            check_ready(job)
        repeated = [(job, code) for job, code in last if code and self._repeats(code)]
        for job, code in repeated:
            if code in CHANGE_SOMETHING:
                again = job.run()
                assert again.code == code, (
                    f"{code} means that the same input fails the same way: {again}"
                )
        if any(code in TRY_AGAIN for _job, code in repeated):
            repair()
        for job, code in repeated:
            if code in TRY_AGAIN:
                for name in ("LD_PRELOAD", "DISK_FAULTS"):
                    job.env.pop(name, None)
                repaired = job.repair(job) or job
                again = repaired.retried()
                assert again.code == 0, (
                    f"{code} means that the next run ends READY without the fault: {again}"
                )

    def _check_copies(self, target: Path) -> None:
        """Invariant 2: each copy that was good is still there, or a later round of the same content
        is.
        """
        now = good_copies(target)
        for directory, files in self._good.get(target, {}).items():
            later = [
                each
                for each in now
                if _content(each) == _content(directory) and _round(each) > _round(directory)
            ]
            assert now.get(directory) == files or later, (
                f"a good copy went before its successor was verified: {directory}; {self.about}"
            )
        self._good[target] = now


def _content(directory: Path) -> str:
    return str(directory).rpartition("-r")[0]


def _round(directory: Path) -> int:
    return int(directory.name.rpartition("-r")[2])
