"""Moves the bytes: small files in one batch, large ones in segments over several connections, each resumed where it stopped.

It writes into the staging directory only, and stops at once when the lock is lost or the run is told to stop.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

from .disk import copy_range
from .errors import Stopped
from .journal import Journal
from .lease import Lease
from .patience import Patience
from .progress import Progress
from .request import Request
from .small_files import SMALL, SmallFiles
from .source import Source, SourceFile
from .staging import Staging
from .stream import Stream, into_file, into_hash

_ADOPTED_AT_ONCE = 16 << 20

# Until where a file may be read by now, waiting until that is beyond the position asked for; None for a file that is all there.
Reach = Callable[[int], int] | None
Begun = Callable[[SourceFile, Reach], None]


class Fetch:
    """Brings files into the staging directory. `stop` ends it from outside; a failure ends all of its threads."""

    def __init__(
        self, request: Request, source: Source, staging: Staging, *, lease: Lease, progress: Progress, stop: threading.Event
    ) -> None:
        self._request = request
        self._source = source
        self._staging = staging
        self._lease = lease
        self._progress = progress
        self._stop = stop
        self._halt = threading.Event()
        self._patience = patience = Patience(request.retries, request.backoff_seconds, stop, progress.say)
        self._small = SmallFiles(request, source, staging, patience=patience, lease=lease, progress=progress, halted=self._halted)
        self._stream = Stream(source, patience, stall_seconds=request.stall_seconds, halted=self._halted)

    def bring(self, files: Sequence[SourceFile], begun: Begun) -> None:
        """Bring `files`. `begun` hears of each as its bytes start to arrive, with a way to wait for them.

        Raises PreheatError, Stopped or OSError once every thread has ended.
        """
        small = [file for file in files if file.size < SMALL]
        large = sorted((file for file in files if file.size >= SMALL), key=lambda file: -file.size)
        with ThreadPoolExecutor(self._request.streams, thread_name_prefix="stream") as pool:
            pending = [pool.submit(task) for task in self._in_turn([self._plan(file, begun) for file in large])]
            if small:
                pending.append(pool.submit(self._small.bring, small, begun))
            self._join(pending)

    def _in_turn(self, plans: Sequence[Iterable[Callable[[], None]]]) -> Iterator[Callable[[], None]]:
        """Segments in such an order that each stream follows a file of its own: what is read back then follows close behind."""
        for start in range(0, len(plans), self._request.streams):
            for tasks in zip_longest(*plans[start : start + self._request.streams]):
                yield from (task for task in tasks if task is not None)

    def second_sha256(self, file: SourceFile) -> str:
        """Read a file at its source once more and throw it away; its sha256. Raises PreheatError or Stopped."""
        sha256 = hashlib.sha256()

        def update(block: memoryview) -> None:
            sha256.update(block)
            self._progress.verified(len(block), moved=True)

        self._progress.expect(file.size)
        self._stream.read(file.path, 0, file.size, into_hash(update))
        return sha256.hexdigest()

    def second_sha256s(self, files: Sequence[SourceFile]) -> dict[str, str]:
        """The same of many small files in a few processes, by path; those that cannot be read so are left out."""
        return self._small.read_again(files)

    def _join(self, pending: Sequence[Future[None]]) -> None:
        failed: BaseException | None = None
        for future in pending:
            try:
                future.result()
            except BaseException as error:  # noqa: BLE001 - raised again below, once every thread has ended
                self._halt.set()
                if failed is None or isinstance(failed, Stopped):
                    failed = error
        if failed is not None:
            raise failed

    def _plan(self, file: SourceFile, begun: Begun) -> Iterator[Callable[[], None]]:
        target = self._staging.place(file.path)
        journal = Journal(self._staging.journal_path(file.path), file.size, self._request.segment_bytes)
        if journal.fresh:
            # Never the file that is there: it may be a link to one of a READY directory.
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            target.unlink(missing_ok=True)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT, 0o644)
        os.ftruncate(fd, file.size)
        self._progress.add(sum(journal.done))
        begun_before = journal.begun(self._staging.stale_journal(file.path))
        open_segments = set(range(journal.count))
        lock = threading.Lock()

        def segment(number: int) -> None:
            try:
                self._adopt(file, journal, number, fd, begun_before[number])
                self._segment(file, journal, number, fd)
            finally:
                with lock:
                    open_segments.discard(number)
                    last = not open_segments
                if last:
                    self._finish(file, fd, journal)

        begun(file, lambda position: journal.reach(position, self._halted))
        return (lambda n=n: segment(n) for n in range(journal.count))

    def _adopt(self, file: SourceFile, journal: Journal, number: int, fd: int, begun: int) -> None:
        """Copy what an earlier holder of the lock had written of a segment; it may still have that file open, and write to it late."""
        if begun <= journal.done[number]:
            return
        start = number * journal.segment
        with contextlib.suppress(FileNotFoundError), (self._staging.stale / file.path).open("rb", buffering=0) as stale:
            while journal.done[number] < begun:
                if self._halted():
                    raise Stopped
                self._lease.check()
                at = start + journal.done[number]
                taken = copy_range(stale.fileno(), fd, at, min(_ADOPTED_AT_ONCE, begun - journal.done[number]))
                if not taken:
                    return
                journal.advance(number, taken)
                self._progress.add(taken)

    def _finish(self, file: SourceFile, fd: int, journal: Journal) -> None:
        """Close a file once no thread writes to it any more. Raises OSError when it could not be stored."""
        stored = False
        try:
            if journal.complete:
                os.fsync(fd)
                stored = True
        except OSError:
            # The kernel forgets what it could not store, and would serve it from memory as if it had: copy this file again.
            self._staging.drop(file.path)
            raise
        finally:
            os.close(fd)
            journal.close()
        if stored:
            self._staging.journal_path(file.path).unlink(missing_ok=True)
            self._staging.forget_stale(file.path)

    def _segment(self, file: SourceFile, journal: Journal, number: int, fd: int) -> None:
        start = number * journal.segment + journal.done[number]

        write = into_file(fd)

        def pull(pipe: int, most: int, offset: int) -> int:
            self._lease.check()
            taken = write(pipe, most, offset)
            journal.advance(number, taken)
            self._progress.add(taken, moved=True)
            return taken

        self._stream.read(file.path, start, journal.length(number) - journal.done[number], pull)

    def _halted(self) -> bool:
        return self._halt.is_set() or self._stop.is_set()


def free_bytes(directory: Path) -> int:
    """What an ordinary user may still write to the file system of `directory`."""
    return shutil.disk_usage(directory).free
