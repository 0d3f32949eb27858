"""Copies large files in segments over several connections, each resumed where it stopped, while small files go in batches.

The journal of a large file says how many bytes of each segment are written, so that a run after a kill continues there. It is
only a hint: whether the bytes are right is decided by reading all of them at the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

from .disk import copy_range
from .errors import Stopped
from .small_files import copy_small
from .source import SMALL, SourceFile
from .stream import Transfer, into_file, into_hash, read_range

_HEADER, _SLOT, _MAGIC = struct.Struct("<8sQQ"), struct.Struct("<Q"), b"IPJRNL1\n"
_POLL_SECONDS = 0.25
_ADOPTED_AT_ONCE = 16 << 20

Reach = Callable[[int], int] | None
"""Waits until a file is written beyond a position, and returns how far; None for a complete file."""


def copy_files(transfer: Transfer, files: Sequence[SourceFile], begun: Callable[[SourceFile, Reach], None]) -> None:
    """Copy `files` into the staging directory; call `begun` for each as its bytes start to arrive.

    Raises PreheatError, Stopped or OSError once every thread has ended.
    """
    small = [file for file in files if file.size < SMALL]
    large = sorted((file for file in files if file.size >= SMALL), key=lambda file: -file.size)
    streams = transfer.request.streams
    failure: BaseException | None = None
    with ThreadPoolExecutor(streams, thread_name_prefix="stream") as pool:
        tasks = [_LargeFile(transfer, file).start(begun) for file in large]
        # Each stream has a file of its own, so that what is read back follows close behind.
        rounds = (zip_longest(*tasks[start : start + streams]) for start in range(0, len(tasks), streams))
        pending = [pool.submit(task) for each in rounds for column in each for task in column if task is not None]
        if small:
            pending.append(pool.submit(copy_small, transfer, small, begun))
        for future in pending:
            try:
                future.result()
            except BaseException as error:  # noqa: BLE001 - raised again below, once every thread has ended
                transfer.halt.set()
                if failure is None or isinstance(failure, Stopped):
                    failure = error
    if failure is not None:
        raise failure


def second_sha256(transfer: Transfer, file: SourceFile) -> str:
    """The sha256 of a file from a second reading at its source. Raises PreheatError or Stopped."""
    sha256 = hashlib.sha256()

    def update(block: memoryview) -> None:
        sha256.update(block)
        transfer.progress.verified(len(block), moved=True)

    transfer.progress.expect(file.size)
    read_range(transfer, file.path, 0, file.size, into_hash(update))
    return sha256.hexdigest()


class _LargeFile:
    def __init__(self, transfer: Transfer, file: SourceFile) -> None:
        self._transfer = transfer
        self._file = file
        staging = transfer.staging
        target = Path(staging.place(file.path))
        self._journal = Journal(staging.journal_path(file.path), file.size, transfer.request.segment_bytes)
        if self._journal.fresh:
            # The file that is there may be a link to one of a READY directory, so it is never written to.
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            target.unlink(missing_ok=True)
        self._fd = os.open(target, os.O_WRONLY | os.O_CREAT, 0o644)
        os.ftruncate(self._fd, file.size)
        transfer.progress.add(sum(self._journal.done))
        self._stale = self._journal.done_in(staging.stale_journal(file.path))
        self._lock = threading.Lock()
        self._open = self._journal.count

    def start(self, begun: Callable[[SourceFile, Reach], None]) -> Iterator[Callable[[], None]]:
        begun(self._file, lambda position: self._journal.reach(position, self._transfer.halted))
        return (lambda n=n: self._segment(n) for n in range(self._journal.count))

    def _segment(self, number: int) -> None:
        try:
            self._adopt(number)
            self._read(number)
        finally:
            with self._lock:
                self._open -= 1
                last = not self._open
            if last:
                self._finish()

    def _adopt(self, number: int) -> None:
        """Copy the bytes of a segment that an earlier holder of the lock wrote: it may still have that file open, and write to it late."""
        transfer, journal, end = self._transfer, self._journal, self._stale[number]
        if end <= journal.done[number]:
            return
        with contextlib.suppress(FileNotFoundError), (transfer.staging.stale / self._file.path).open("rb", buffering=0) as stale:
            while journal.done[number] < end:
                transfer.check()
                position = number * journal.segment + journal.done[number]
                count = copy_range(stale.fileno(), self._fd, position, min(_ADOPTED_AT_ONCE, end - journal.done[number]))
                if not count:
                    return
                journal.advance(number, count)
                transfer.progress.add(count)

    def _read(self, number: int) -> None:
        transfer, journal = self._transfer, self._journal
        write = into_file(self._fd)

        def pull(pipe: int, most: int, offset: int) -> int:
            transfer.lease.check()
            count = write(pipe, most, offset)
            journal.advance(number, count)
            transfer.progress.add(count, moved=True)
            return count

        start = number * journal.segment + journal.done[number]
        read_range(transfer, self._file.path, start, journal.length(number) - journal.done[number], pull)

    def _finish(self) -> None:
        """Close the file after its last thread. Raises OSError when it could not be stored."""
        staging, path, stored = self._transfer.staging, self._file.path, False
        try:
            if self._journal.complete:
                os.fsync(self._fd)
                stored = True
        except OSError:
            # The kernel would serve what it could not store from memory until the next restart: copy this file again.
            staging.drop(path)
            raise
        finally:
            os.close(self._fd)
            self._journal.close()
        if stored:
            staging.journal_path(path).unlink(missing_ok=True)
            staging.forget_stale(path)


class Journal:
    """The number of written bytes of each segment of a large file. It exists from the file's first byte to its last."""

    def __init__(self, path: Path, size: int, segment: int) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._closed = False
        self.size = size
        self.segment = segment
        self.count = max(1, -(-size // segment))
        self._header = _HEADER.pack(_MAGIC, size, segment)
        slots = self._slots(path)
        self.fresh = slots is None
        self.done = slots or [0] * self.count
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if self.fresh:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, self._header + bytes(self.count * _SLOT.size), 0)

    def done_in(self, path: Path) -> list[int]:
        """The bytes of each segment by another journal of the same file; 0 if it cannot be read."""
        with contextlib.suppress(OSError):
            return self._slots(path) or [0] * self.count
        return [0] * self.count

    def _slots(self, path: Path) -> list[int] | None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if data[: _HEADER.size] != self._header or len(data) != _HEADER.size + self.count * _SLOT.size:
            return None
        return [min(value, self.length(n)) for n, (value,) in enumerate(_SLOT.iter_unpack(data[_HEADER.size :]))]

    def length(self, number: int) -> int:
        return min(self.segment, self.size - number * self.segment)

    def advance(self, number: int, count: int) -> None:
        """Record `count` more bytes of a segment."""
        self.done[number] += count
        os.pwrite(self._fd, _SLOT.pack(self.done[number]), _HEADER.size + number * _SLOT.size)
        with self._changed:
            self._changed.notify_all()

    @property
    def complete(self) -> bool:
        return sum(self.done) == self.size

    def reach(self, position: int, halted: Callable[[], bool]) -> int:
        """Wait until the file is written without a gap beyond `position`; returns how far. Raises Stopped."""
        with self._changed:
            while (end := self._prefix()) <= position:
                if halted():
                    raise Stopped
                if self._closed:
                    raise RuntimeError(f"{self._path.name}: the transfer ended at byte {end} of {self.size}")
                self._changed.wait(_POLL_SECONDS)
        return end

    def close(self) -> None:
        """Close the journal. Its file stays until the large file is stored."""
        os.close(self._fd)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _prefix(self) -> int:
        end = 0
        for number, done in enumerate(self.done):
            end += done
            if done < self.length(number):
                break
        return end
