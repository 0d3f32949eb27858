"""Moves files that are too small for segments, in batches: what a process or a disk's flush costs is shared by many of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from .certificates import untrusted
from .disk import make_parents, sync
from .errors import Exit, PreheatError, Stopped
from .lease import Lease
from .patience import Patience
from .progress import Progress
from .request import Request
from .source import Source, SourceFile
from .staging import Staging

SMALL = 8 << 20
"""From this size on, in bytes, a file travels in segments."""
_BATCH_FILES, _BATCH_BYTES = 5000, 1 << 30
# Flushes that wait at the same time are written together.
_FLUSHES = 16
# Go spells these errors as the C library does, in lower case.
_OF_THE_SHARE = (errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG)


class SmallFiles:
    """Brings small files into the staging directory. `halted` ends it from outside."""

    def __init__(
        self,
        request: Request,
        source: Source,
        staging: Staging,
        *,
        patience: Patience,
        lease: Lease,
        progress: Progress,
        halted: Callable[[], bool],
    ) -> None:
        self._request = request
        self._source = source
        self._staging = staging
        self._patience = patience
        self._lease = lease
        self._progress = progress
        self._halted = halted

    def bring(self, files: Sequence[SourceFile], begun: Callable[[SourceFile, None], None]) -> None:
        """Bring `files`; `begun` hears of each that is there. Raises PreheatError, Stopped or OSError."""
        for batch in batches(files):
            self._bring_batch(batch, begun)

    def read_again(self, files: Sequence[SourceFile]) -> dict[str, str]:
        """The sha256 of each of `files` that can be read at its source once more, by path. Raises PreheatError(LOST_LOCK) or Stopped."""
        found: dict[str, str] = {}
        for batch in batches(files):
            self._lease.check()
            if self._halted():
                raise Stopped
            size = sum(file.size for file in batch)
            self._progress.expect(size)
            found |= self._source.rclone.sha256s(self._source.root, [file.path for file in batch], streams=self._request.streams)
            self._progress.verified(size, moved=True)
        return found

    def _bring_batch(self, files: Sequence[SourceFile], begun: Callable[[SourceFile, None], None]) -> None:
        waiting = {file.path: file for file in files}
        tries, problem = 0, ""
        while waiting:
            for file in self._arrived(list(waiting.values())):
                del waiting[file.path]
                tries = 0
                begun(file, None)
            if not waiting:
                return
            # A copy that rclone is content with and that has another size is of another version than the one listed.
            if self._patience.ended(tries) or (tries and not problem):
                raise self._undelivered(waiting[min(waiting)], problem)
            if tries:
                self._patience.wait(tries, f"{len(waiting)} small files", problem, self._halted)
            tries += 1
            problem = self._copy(sorted(path for path, file in waiting.items() if file.size))

    def _copy(self, paths: Sequence[str]) -> str:
        if not paths:
            return ""
        problem = self._source.rclone.copy(
            self._source.root,
            paths,
            self._staging.incoming,
            streams=self._request.streams,
            alive=lambda: not self._halted() and self._lease.held(),
        )
        self._lease.check()
        if self._halted():
            raise Stopped
        if refusal := untrusted(problem, self._source.name):
            raise refusal
        for number in _OF_THE_SHARE:
            if os.strerror(number).lower() in problem.lower():
                raise OSError(number, os.strerror(number))
        return problem

    def _undelivered(self, file: SourceFile, problem: str) -> PreheatError:
        if not problem and (reason := self._source.diagnosis(file.path)):
            return reason
        remedy = "check that the source is up and that the key may read it; what has arrived stays, the next run goes on"
        expected, found = f"{file.size} bytes", problem or "another size"
        return PreheatError(
            Exit.SOURCE, "the source did not deliver", remedy, file=file.path, expected=expected, found=found, transient=True
        )

    def _arrived(self, files: Sequence[SourceFile]) -> list[SourceFile]:
        """Those of `files` that have come whole; they are stored, and where they belong."""
        with ThreadPoolExecutor(_FLUSHES, thread_name_prefix="flush") as pool:
            there = list(pool.map(self._has_arrived, files))
        arrived = [file for file, whole in zip(files, there, strict=True) if whole]
        for file in arrived:
            (self._staging.incoming / file.path).replace(self._staging.place(file.path))
            self._progress.add(file.size, moved=True, files=1)
        return arrived

    def _has_arrived(self, file: SourceFile) -> bool:
        incoming = self._staging.incoming / file.path
        if not file.size:
            make_parents(self._staging.incoming, file.path).touch()
        try:
            if incoming.stat().st_size != file.size:
                return False
        except (FileNotFoundError, NotADirectoryError):
            return False
        sync(incoming)
        return True


def batches(files: Sequence[SourceFile]) -> Iterator[list[SourceFile]]:
    """`files` in batches that one process moves, none of them too large to be lost and moved again."""
    batch: list[SourceFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) == _BATCH_FILES or size + file.size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch
