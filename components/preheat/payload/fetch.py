"""Moves the bytes: small files in one batch, large ones in segments over several connections, each resumed where it stopped.

It writes into the staging directory only, and stops at once when the lock is lost or the run is told to stop.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

from .disk import sync
from .journal import Journal
from .lease import Lease
from .outcome import Exit, PreheatError, Stopped
from .patience import Patience
from .progress import Progress
from .request import Request
from .source import Source, SourceFile
from .staging import Staging
from .stream import Stream, into_file, into_hash
from .trust import untrusted

SMALL = 8 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)

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
                pending.append(pool.submit(self._bring_small, small, begun))
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
        target = self._staging.files / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            self._staging.drop(file.path)
        journal = Journal(self._staging.journal_path(file.path), file.size, self._request.segment_bytes)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if journal.fresh else 0), 0o644)
        os.ftruncate(fd, file.size)
        self._progress.add(sum(journal.done))
        open_segments = set(range(journal.count))
        lock = threading.Lock()

        def segment(number: int) -> None:
            try:
                self._segment(file, journal, number, fd)
            finally:
                with lock:
                    open_segments.discard(number)
                    last = not open_segments
                if last:
                    _finish(fd, journal)

        begun(file, lambda position: journal.reach(position, self._halted))
        return (lambda n=n: segment(n) for n in range(journal.count))

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

    def _bring_small(self, files: Sequence[SourceFile], begun: Begun) -> None:
        waiting = {file.path: file for file in files}
        tries, problem = 0, ""
        while waiting:
            for file in [file for file in waiting.values() if self._arrived_small(file)]:
                del waiting[file.path]
                tries = 0
                begun(file, None)
            if not waiting:
                return
            # A copy that rclone is content with and that has another size is of another version than the one listed.
            if self._patience.ended(tries) or (tries and not problem):
                path = min(waiting)
                remedy = "check that the source is up and that the key may read it; what has arrived stays, the next run goes on"
                raise PreheatError(
                    Exit.SOURCE,
                    "the source did not deliver",
                    remedy,
                    file=path,
                    expected=f"{waiting[path].size} bytes",
                    found=problem or "another size",
                    transient=True,
                )
            if tries:
                self._patience.wait(tries, f"{len(waiting)} small files", problem, self._halted)
            tries += 1
            problem = self._source.rclone.copy(
                self._source.root,
                sorted(path for path, file in waiting.items() if file.size),
                self._staging.incoming,
                streams=self._request.streams,
                alive=lambda: not self._halted() and self._lease.held(),
            )
            self._lease.check()
            if self._halted():
                raise Stopped
            if refusal := untrusted(problem, self._source.name):
                raise refusal
            for number in _FULL:
                # rclone tells the share's errors and the source's in one way; Go spells these as the C library does, in lower case.
                if os.strerror(number).lower() in problem.lower():
                    raise OSError(number, os.strerror(number))

    def _arrived_small(self, file: SourceFile) -> bool:
        incoming = self._staging.incoming / file.path
        if not file.size:
            incoming.parent.mkdir(parents=True, exist_ok=True)
            incoming.touch()
        try:
            if incoming.stat().st_size != file.size:
                return False
        except FileNotFoundError:
            return False
        sync(incoming)
        target = self._staging.files / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        incoming.replace(target)
        self._progress.add(file.size, moved=True)
        return True

    def _halted(self) -> bool:
        return self._halt.is_set() or self._stop.is_set()


def free_bytes(directory: Path) -> int:
    """What an ordinary user may still write to the file system of `directory`."""
    return shutil.disk_usage(directory).free


def _finish(fd: int, journal: Journal) -> None:
    try:
        if journal.complete:
            os.fsync(fd)
    finally:
        os.close(fd)
        journal.close()
