"""Moves the bytes: small files in one batch, large ones in segments over several connections, each resumed where it stopped.

It writes into the staging directory only, and stops at once when the lock is lost or the run is told to stop.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from .disk import sync
from .journal import Journal
from .lease import Lease
from .outcome import Exit, PreheatError, Stopped
from .patience import Patience
from .progress import Progress
from .rclone import last_line
from .request import Request
from .source import Source, SourceFile
from .staging import Staging

SMALL = 8 << 20
_BLOCK = 1 << 20
_POLL_MILLISECONDS = 250


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
        self._patience = Patience(request.retries, request.backoff_seconds, stop, progress.say)

    def bring(self, files: Sequence[SourceFile], arrived: Callable[[SourceFile], None]) -> None:
        """Bring `files`, calling `arrived` from some thread as each is complete. Raises PreheatError, Stopped or OSError."""
        small = [file for file in files if file.size < SMALL]
        large = sorted((file for file in files if file.size >= SMALL), key=lambda file: -file.size)
        with ThreadPoolExecutor(self._request.streams, thread_name_prefix="stream") as pool:
            tasks = [task for file in large for task in self._plan(file, arrived)]
            pending = [pool.submit(task) for task in tasks]
            if small:
                pending.append(pool.submit(self._bring_small, small, arrived))
            self._join(pending)

    def second_sha256(self, file: SourceFile) -> str:
        """Read a file at its source once more and throw it away; its sha256. Raises PreheatError or Stopped."""
        sha256 = hashlib.sha256()

        def take(block: memoryview, _offset: int) -> None:
            sha256.update(block)

        self._read(file.path, 0, file.size, take)
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

    def _plan(self, file: SourceFile, arrived: Callable[[SourceFile], None]) -> Iterator[Callable[[], None]]:
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
                    complete = all(journal.done[n] == journal.length(n) for n in range(journal.count))
                    try:
                        if complete:
                            os.fsync(fd)
                    finally:
                        os.close(fd)
                        journal.close(complete=complete)
                    if complete:
                        arrived(file)

        return (lambda n=n: segment(n) for n in range(journal.count))

    def _segment(self, file: SourceFile, journal: Journal, number: int, fd: int) -> None:
        start = number * journal.segment + journal.done[number]

        def take(block: memoryview, offset: int) -> None:
            self._lease.check()
            written = 0
            while written < len(block):
                written += os.pwrite(fd, block[written:], offset + written)
            journal.advance(number, len(block))
            self._progress.add(len(block), moved=True)

        self._read(file.path, start, journal.length(number) - journal.done[number], take)

    def _read(self, path: str, offset: int, count: int, take: Callable[[memoryview, int], None]) -> None:
        """Hand `count` bytes of a file to `take`, going on after each failure; gives up after `retries` without a byte."""
        tries = 0
        while count:
            done, problem = self._pour(path, offset, count, take)
            offset, count = offset + done, count - done
            if not count:
                return
            tries = 1 if done else tries + 1
            if self._patience.ended(tries):
                remedy = "check that the source is up and that the key may read it; what has arrived stays, the next run goes on"
                raise PreheatError(
                    Exit.SOURCE,
                    "the source stopped sending",
                    remedy,
                    file=path,
                    expected=f"{count} more bytes",
                    found=problem,
                    transient=True,
                )
            self._patience.wait(tries, f"{path} from byte {offset}", problem, self._halted)

    def _pour(self, path: str, offset: int, count: int, take: Callable[[memoryview, int], None]) -> tuple[int, str]:
        process = self._source.rclone.stream(self._source.location(path), offset, count)
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("rclone was started without pipes")
        out = process.stdout.fileno()
        poll = select.poll()
        poll.register(out, select.POLLIN)
        buffer = memoryview(bytearray(_BLOCK))
        done, quiet_since = 0, time.monotonic()
        try:
            while done < count:
                if self._halted():
                    raise Stopped
                if not poll.poll(_POLL_MILLISECONDS):
                    if time.monotonic() - quiet_since > self._request.stall_seconds:
                        return done, f"no byte for {self._request.stall_seconds:.0f} s"
                    continue
                got = os.readv(out, [buffer[: min(_BLOCK, count - done)]])
                if not got:
                    return done, last_line(process.stderr.read()) or "the stream ended early"
                take(buffer[:got], offset + done)
                done += got
                quiet_since = time.monotonic()
            return done, ""
        finally:
            _end(process)

    def _bring_small(self, files: Sequence[SourceFile], arrived: Callable[[SourceFile], None]) -> None:
        waiting = {file.path: file for file in files}
        tries, problem = 0, ""
        while waiting:
            for file in [file for file in waiting.values() if self._arrived_small(file)]:
                del waiting[file.path]
                tries = 0
                arrived(file)
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
            if "no space left on device" in problem:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

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


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.wait()
