"""One preheat from start to end: lock, look, list, move, prove, publish, collect.

A directory becomes READY only after every file in it was read back from the share and found equal to the source.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from .checksums import Digests, digest
from .errors import Exit, PreheatError, Stopped
from .file_checks import check_file, check_index, refuse_names, wanted
from .large_files import Fetch, Reach, free_bytes
from .manifest import Entry, Manifest
from .progress import Progress, size
from .request import Request
from .small_files import SMALL, batches
from .source import Source, SourceFile, prove
from .standing import standing
from .workspace import workspace

_READINGS = 3
_LISTINGS = 4
_HEADROOM = 1 << 20


@dataclass(frozen=True)
class Result:
    """How a run ended well. `moved` counts bytes that came over the network."""

    manifest: Manifest
    moved: int


class Preheat:
    """Makes one directory READY. `stop` ends the run early, with everything staged kept for the next one."""

    def __init__(self, request: Request, source: Source, progress: Progress, stop: threading.Event) -> None:
        self._request = request
        self._source = source
        self._progress = progress
        self._stop = stop

    def run(self) -> Result:
        """Do it. Raises PreheatError with the reason, Stopped when told to, OSError when the share fails."""
        self._progress.begin("waiting for the lock", 0)
        with workspace(self._request, self._stop, _Waiting(self._progress)) as held:
            self._lease, self._staging, self._shelf = held.lease, held.staging, held.shelf
            self._progress.begin("looking at what is there", 0)
            present = self._present()
            if present is not None:
                # A holder that was frozen may have left a half of a file, which no later run would complete.
                self._staging.forget_all_stale()
                self._shelf.settle()
                self._collect()
                return Result(present, 0)
            manifest = self._make()
            # Every file is complete: what earlier holders had begun of one would stay on the share for as long as the model.
            self._staging.forget_all_stale()
            self._shelf.publish(manifest)
            self._collect()
            return Result(manifest, self._progress.moved)

    def _present(self) -> Manifest | None:
        """The manifest of a directory that is READY as it was asked for. READY goes where it stands over wrong bytes; files stay."""
        stands = standing(self._request, self._source.name)
        for problem in stands.problems:
            self._progress.say(f"damaged, so it is made again: {problem}")
        if stands.wrong:
            self._shelf.withdraw()
        return stands.manifest

    def _make(self) -> Manifest:
        proven: dict[str, Entry] = {}
        self._progress.begin("listing the source", 0)
        files = self._list()
        changed: list[str] = []
        for _ in range(_LISTINGS):
            self._staging.settle(files)
            proven = {file.path: proven[file.path] for file in files if _unchanged(proven.get(file.path), file)}
            failure: PreheatError | None = None
            try:
                proven |= self._bring([file for file in files if file.path not in proven])
                check_index(self._staging.files, proven)
            except PreheatError as error:
                if not error.of_content:
                    raise
                # A file that is being uploaded looks broken, until the list says that it has changed.
                failure = error
            again = self._list()
            if again == files and failure is not None:
                raise _unfinished(failure) if changed else failure
            if again == files:
                return self._manifest(proven.values())
            changed = sorted({file.path for file in set(again) ^ set(files)})
            self._progress.say(f"the source changed meanwhile, reading again: {', '.join(changed[:5])}")
            files = again
        remedy = "let the upload finish, then run the preheat again"
        raise PreheatError(
            Exit.SOURCE, "the source keeps changing while it is read", remedy, file=changed[0], found=f"{_LISTINGS} different listings"
        )

    def _list(self) -> list[SourceFile]:
        files = [file for file in self._source.files() if wanted(file.path, self._request.include, self._request.exclude)]
        files = [file for file in files if not file.path.startswith(".inferplan/")]
        if not files:
            remedy = "check weights.path, and preheat.include and preheat.exclude"
            raise PreheatError(Exit.REFUSED, f"no file to preheat at {self._source.name}", remedy)
        refuse_names([file.path for file in files], self._request.allow_pickle)
        return sorted(files, key=lambda file: file.path)

    def _bring(self, files: Sequence[SourceFile]) -> dict[str, Entry]:
        final = self._request.final
        spared = self._staging.reuse(
            files, [*([final] if final.is_dir() else []), *(path for path in self._shelf.rounds() if path != final)]
        )
        if spared:
            self._progress.say(f"{size(spared)} are there already, and are compared with the source")
        proven: dict[str, Entry] = {}
        for reading in range(1, _READINGS + 1):
            missing = [file for file in files if file.path not in proven]
            failures = self._pass(missing, proven)
            if not failures:
                return proven
            for path, failure in sorted(failures.items()):
                if reading == _READINGS:
                    raise failure
                self._progress.say(f"{failure.file}: {failure.problem}; reading it again ({reading} of {_READINGS - 1})")
                self._staging.drop(path)
        raise AssertionError("the last reading either proves or raises")

    def _pass(self, files: Sequence[SourceFile], proven: dict[str, Entry]) -> dict[str, PreheatError]:
        """Move what is missing and prove everything; what could not be proved, by path."""
        staged = [file for file in files if self._staging.complete(file)]
        missing = [file for file in files if not self._staging.complete(file)]
        self._check_room(missing)
        total = sum(file.size for file in files)
        self._progress.begin("copying", total, sum(file.size for file in staged))
        self._progress.expect(total)
        self._progress.await_files(sum(file.size < SMALL for file in missing))
        fetch = Fetch(self._request, self._source, self._staging, lease=self._lease, progress=self._progress, stop=self._stop)
        small: list[SourceFile] = []
        proofs: dict[str, Future[Entry]] = {}
        with ThreadPoolExecutor(max(os.cpu_count() or 1, self._request.streams), thread_name_prefix="proof") as pool:

            def begun(file: SourceFile, reach: Reach) -> None:
                if file.size < SMALL:
                    small.append(file)
                else:
                    proofs[file.path] = pool.submit(self._prove, file, fetch, reach)

            for file in staged:
                begun(file, None)
            try:
                fetch.bring(missing, begun)
                self._progress.verify()
                failures = _sort_out(proofs, proven)
                # One batch at a time: the futures of 100,000 files together would take 100 MiB.
                for batch in batches(small):
                    second = fetch.second_sha256s([file for file in batch if not file.has_checksum])
                    twice = [replace(file, second_sha256=second.get(file.path)) for file in batch]
                    failures |= _sort_out({file.path: pool.submit(self._prove, file, fetch, None) for file in twice}, proven)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return failures

    def _prove(self, file: SourceFile, fetch: Fetch, reach: Reach) -> Entry:
        path = self._staging.files / file.path
        readings = count()

        def read(**asked: Any) -> Digests:
            if next(readings):
                self._progress.expect(file.size)
            return digest(path, counted=self._go_on, reach=reach, **asked)

        sha256, evidence = prove(file, self._source, again=fetch.second_sha256, read=read)
        check_file(path, file.path, self._request.allow_pickle)
        path.chmod(0o644)
        return Entry(path=file.path, size=file.size, sha256=sha256, mtime_ns=0, evidence=evidence, origin=file.origin)

    def _manifest(self, proven: Iterable[Entry]) -> Manifest:
        # Only now does the time of each file stand: a share's server may set it when the last byte reaches its disk.
        entries = (replace(entry, mtime_ns=(self._staging.files / entry.path).stat().st_mtime_ns) for entry in proven)
        return Manifest(content=self._request.content, source=self._source.name, revision=self._request.revision, entries=tuple(entries))

    def _go_on(self, read: int) -> None:
        if self._stop.is_set():
            raise Stopped
        self._progress.verified(read)

    def _check_room(self, missing: Sequence[SourceFile]) -> None:
        need = sum(file.size for file in missing) + _HEADROOM - self._staging.bytes()
        if need > free_bytes(self._request.target):
            # What would be copied from there can be moved again; it is no reason to give up.
            self._staging.forget_all_stale()
        if need > (have := free_bytes(self._request.target)):
            remedy = "free some: remove old models or lower preheat.keep, or name a larger share"
            raise PreheatError(
                Exit.TARGET, "the share is too full", remedy, expected=f"{size(sum(file.size for file in missing))} free", found=size(have)
            )

    def _collect(self) -> None:
        for name in self._shelf.collect():
            self._progress.say(f"removed round {name}")


class _Waiting:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._said = 0.0

    def __call__(self, holder: str) -> None:
        if time.monotonic() - self._said > 5 or not self._said:
            self._said = time.monotonic()
            self._progress.say(f"waiting: {holder} works on the same files")


def _unchanged(entry: Entry | None, file: SourceFile) -> bool:
    return entry is not None and (entry.origin, entry.size) == (file.origin, file.size)


def _unfinished(failure: PreheatError) -> PreheatError:
    """The same failure of a source that changed during the run, where an upload may only pause."""
    remedy = "the source changed during this run: let the upload finish, then run the preheat again"
    return replace(failure, code=Exit.SOURCE, remedy=remedy)


def _sort_out(proofs: dict[str, Future[Entry]], proven: dict[str, Entry]) -> dict[str, PreheatError]:
    failures: dict[str, PreheatError] = {}
    for path, future in proofs.items():
        try:
            proven[path] = future.result()
        except PreheatError as failure:
            if not failure.transient:
                raise
            failures[path] = failure
    return failures
