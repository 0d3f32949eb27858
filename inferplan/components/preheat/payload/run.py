"""One preheat from start to end: take the lock, check what is there, list, copy, verify, publish, remove old rounds.

A directory becomes READY only after every file in it was read back from the share and equals the source.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from .checksums import Digests, digest
from .errors import Exit, PreheatError, Stopped
from .file_checks import check_file, check_index, refuse_names, refuse_pickles, wanted
from .large_files import Reach, copy_files, second_sha256
from .layers import check_layers
from .lease import Workspace, workspace
from .manifest import Entry, Manifest, is_silly
from .progress import Progress, size
from .request import Request
from .rounds import ready_state
from .small_files import batches, read_again
from .source import SMALL, TWICE, Source, SourceFile, compare, same
from .stream import Transfer
from .target import full
from .waiting import in_tasks

_READINGS = 3
_LISTINGS = 4
_HEADROOM = 1 << 20
_UPLOAD = "let the upload finish, then run the preheat again"


@dataclass(frozen=True)
class Result:
    """The READY directory of a run. `moved` counts bytes that came over the network."""

    manifest: Manifest
    moved: int


def preheat(request: Request, source: Source, progress: Progress, stop: threading.Event) -> Result:
    """Make one directory READY. `stop` ends the run early; staged files stay for the next run.

    Raises PreheatError with the reason, Stopped, or OSError when the share fails.
    """
    progress.begin("waiting for the lock", 0)
    with workspace(request, stop, _Waiting(progress)) as work:
        progress.begin("looking at what is there", 0)
        state = ready_state(request, source.name)
        for problem in state.problems:
            progress.say(f"damaged, so it is made again: {problem}")
        if state.wrong:
            work.rounds.withdraw()
        manifest, moved = state.manifest, 0
        if manifest is not None:
            # Another model of the same files may allow what this one does not.
            refuse_pickles(request.final, [entry.path for entry in manifest.entries], request.allow_pickle, strict=request.strict)
        else:
            manifest = _Preparation(request, source, progress, stop, work).manifest()
            moved = progress.moved
        # Every file is complete: a half file of an earlier holder would stay on the share as long as the model.
        work.staging.forget_all_stale()
        if state.manifest is None:
            work.rounds.publish(manifest)
        else:
            work.rounds.settle(manifest)
        for name in work.rounds.collect():
            progress.say(f"removed round {name}")
        return Result(manifest, moved)


class _Preparation:
    """Copies and verifies the files of one directory in staging."""

    def __init__(self, request: Request, source: Source, progress: Progress, stop: threading.Event, work: Workspace) -> None:
        self._request = request
        self._source = source
        self._progress = progress
        self._stop = stop
        self._staging = work.staging
        self._work = work
        self._allowed_names: list[str] = []

    def manifest(self) -> Manifest:
        """The manifest of the staged files, once they are one version of the source. Raises PreheatError, Stopped or OSError."""
        proven: dict[str, Entry] = {}
        self._progress.begin("listing the source", 0)
        files = self._list()
        changed: list[str] = []
        for _ in range(_LISTINGS):
            self._staging.settle(files)
            current = {(file.path, file.origin, file.size) for file in files}
            proven = {path: entry for path, entry in proven.items() if (path, entry.origin, entry.size) in current}
            failure: PreheatError | None = None
            try:
                proven |= self._bring([file for file in files if file.path not in proven])
                check_index(self._staging.files, proven)
                check_layers(self._staging.files, proven)
            except PreheatError as error:
                if not error.of_content:
                    raise
                # A file that is being uploaded looks broken, until the listing shows that it has changed.
                failure = error
            again = self._list()
            if again == files:
                if failure is None:
                    return self._describe(proven.values())
                if not changed:
                    raise failure
                # An upload may only pause.
                raise replace(failure, code=Exit.SOURCE, remedy=f"the source changed during this run: {_UPLOAD}")
            changed = sorted({file.path for file in set(again) ^ set(files)})
            self._progress.say(f"the source changed meanwhile, reading again: {', '.join(changed[:5])}")
            files = again
        facts = {"file": changed[0], "found": f"{_LISTINGS} different listings"}
        raise PreheatError(Exit.SOURCE, "the source keeps changing while it is read", _UPLOAD, **facts)

    def _list(self) -> list[SourceFile]:
        files = chosen_files(self._request, self._source.files())
        if not files:
            problem = f"no file to preheat at {self._source.name}"
            raise PreheatError(Exit.REFUSED, problem, "check weights.path, and preheat.include and preheat.exclude")
        names = [file.path for file in files]
        if names != self._allowed_names:
            refuse_names(names, self._request.allow_pickle)
            self._allowed_names = names
        self._source.check(files)
        return files

    def _bring(self, files: Sequence[SourceFile]) -> dict[str, Entry]:
        final = self._request.final
        others = [path for path in self._work.rounds.ready() if path != final]
        linked = self._staging.reuse(files, [*([final] if final.is_dir() else []), *others])
        if linked:
            self._progress.say(f"{size(linked)} are there already, and are compared with the source")
        proven: dict[str, Entry] = {}
        for reading in range(1, _READINGS + 1):
            missing = [file for file in files if file.path not in proven]
            failures = self._pass(missing, proven)
            if not failures:
                break
            for path, failure in sorted(failures.items()):
                if reading == _READINGS:
                    raise failure
                self._progress.say(f"{failure.file}: {failure.problem}; reading it again ({reading} of {_READINGS - 1})")
                self._staging.drop(path)
        return proven

    def _pass(self, files: Sequence[SourceFile], proven: dict[str, Entry]) -> dict[str, PreheatError]:
        """Copy missing files and verify all; returns the transient failures by path."""
        staged, missing = [], []
        for file in files:
            (staged if self._staging.complete(file) else missing).append(file)
        self._check_room(missing)
        total = sum(file.size for file in files)
        self._progress.begin("copying", total, sum(file.size for file in staged))
        self._progress.expect(total)
        self._progress.await_files(sum(file.size < SMALL for file in missing))
        transfer = Transfer(self._request, self._source, self._staging, self._work.lease, self._progress, self._stop)
        small: list[SourceFile] = []
        proofs: dict[str, Future[Entry]] = {}
        with ThreadPoolExecutor(max(os.cpu_count() or 1, self._request.streams), thread_name_prefix="proof") as pool:

            def begun(file: SourceFile, reach: Reach) -> None:
                if file.size < SMALL:
                    small.append(file)
                else:
                    proofs[file.path] = pool.submit(self._verify, file, reach)

            for file in staged:
                begun(file, None)
            try:
                copy_files(transfer, missing, begun)
                self._progress.verify()
                failures = _sort_out(proofs, proven)
                # One batch at a time: the futures of 100,000 files would take 100 MiB.
                for batch in batches(small):
                    failures |= _sort_small(in_tasks(pool, _caught(self._verify), batch), proven)
                failures |= self._read_again(files, proven, transfer, pool)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return failures

    def _read_again(
        self, files: Sequence[SourceFile], proven: dict[str, Entry], transfer: Transfer, pool: ThreadPoolExecutor
    ) -> dict[str, PreheatError]:
        """Compare the files that have no checksum with a second reading; returns the transient failures by path.

        It starts after all first readings have ended, so that files that are replaced together at the source never become READY half. One
        file that differs makes all of them doubtful: a version may be a time in seconds.
        """
        twice = [file for file in files if file.path in proven and proven[file.path].evidence in TWICE]
        failures: dict[str, PreheatError] = {}
        for batch in [*batches([file for file in twice if file.size < SMALL]), [file for file in twice if file.size >= SMALL]]:
            small = read_again(transfer, [file for file in batch if file.size < SMALL])
            copies = {file: proven.pop(file.path) for file in batch}

            def again(file: SourceFile, small: dict[str, str] = small, copies: dict[SourceFile, Entry] = copies) -> Entry:
                copy = copies[file]
                same(file, "sha256 of a second reading", small.get(file.path) or second_sha256(transfer, file), copy.sha256)
                # A byte may have changed on its way, not at the source.
                self._check(file)
                return copy

            if small:
                failures |= _sort_small(in_tasks(pool, _caught(again), batch), proven)
            else:
                failures |= _sort_out({file.path: pool.submit(again, file) for file in batch}, proven)
        for file in twice if failures else ():
            proven.pop(file.path, None)
        return failures

    def _verify(self, file: SourceFile, reach: Reach = None) -> Entry:
        path = f"{self._staging.files}/{file.path}"
        readings = count()

        def read(**options: Any) -> Digests:
            if next(readings):
                self._progress.expect(file.size)
            return digest(path, counted=self._count, reach=reach, **options)

        sha256, evidence = compare(file, self._source, read=read)
        if evidence not in TWICE:
            self._check(file)
        os.chmod(path, 0o644)  # noqa: PTH101 - for each of many files
        return Entry(path=file.path, size=file.size, sha256=sha256, mtime_ns=0, evidence=evidence, origin=file.origin)

    def _check(self, file: SourceFile) -> None:
        proven = (file.sha256 or file.git_sha1) is not None
        rules = {"proven": proven, "trusted": self._source.trusted, "strict": self._request.strict}
        check_file(f"{self._staging.files}/{file.path}", file.path, self._request.allow_pickle, **rules)

    def _count(self, read: int) -> None:
        if self._stop.is_set():
            raise Stopped
        self._progress.verified(read)

    def _describe(self, proven: Iterable[Entry]) -> Manifest:
        # Only now is the time of each file final: a share's server may set it when the last byte reaches its disk.
        entries = (replace(entry, mtime_ns=os.stat(f"{self._staging.files}/{entry.path}").st_mtime_ns) for entry in proven)  # noqa: PTH116 - for each of many files
        return Manifest(content=self._request.content, source=self._source.name, revision=self._request.revision, entries=tuple(entries))

    def _check_room(self, missing: Sequence[SourceFile]) -> None:
        need = sum(file.size for file in missing) + _HEADROOM - self._staging.bytes()
        if need > shutil.disk_usage(self._request.target).free:
            # Half files of earlier holders can be copied from the source again.
            self._staging.forget_all_stale()
        if need > shutil.disk_usage(self._request.target).free:
            raise full(self._request, need)


class _Waiting:
    """Logs the holder of the lock, at most every 5 s."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._logged = 0.0

    def __call__(self, holder: str) -> None:
        if time.monotonic() - self._logged > 5 or not self._logged:
            self._logged = time.monotonic()
            self._progress.say(f"waiting: {holder} works on the same files")


def chosen_files(request: Request, files: Iterable[SourceFile]) -> list[SourceFile]:
    """The files that pass the request's globs, in the order of their paths."""
    matches = (file for file in files if wanted(file.path, request.include, request.exclude) and not file.path.startswith(".inferplan/"))
    # An NFS client renames files that are open and gone; as model files they would be missing again with the next look.
    return sorted((file for file in matches if not is_silly(file.path)), key=lambda file: file.path)


def _sort_out(proofs: dict[str, Future[Entry]], proven: dict[str, Entry]) -> dict[str, PreheatError]:
    """Add the verified files to `proven`; returns the transient failures by path. Raises any other failure."""
    failures: dict[str, PreheatError] = {}
    for path, future in proofs.items():
        try:
            proven[path] = future.result()
        except PreheatError as failure:
            if not failure.transient:
                raise
            failures[path] = failure
    return failures


def _caught(work: Callable[[SourceFile], Entry]) -> Callable[[SourceFile], Entry | tuple[str, PreheatError]]:
    """`work`, which returns a transient failure with the file's path."""

    def guarded(file: SourceFile) -> Entry | tuple[str, PreheatError]:
        try:
            return work(file)
        except PreheatError as failure:
            if not failure.transient:
                raise
            return file.path, failure

    return guarded


def _sort_small(results: Iterable[Entry | tuple[str, PreheatError]], proven: dict[str, Entry]) -> dict[str, PreheatError]:
    """As `_sort_out`, for results of several files at a time."""
    failures: dict[str, PreheatError] = {}
    for each in results:
        if isinstance(each, Entry):
            proven[each.path] = each
        else:
            failures[each[0]] = each[1]
    return failures
