"""How far a large file has come, kept beside it, so that a run that was killed goes on where it stopped.

It is a hint for speed only: whether the bytes are right is decided by reading all of them at the end.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from .errors import Stopped

_HEADER = struct.Struct("<8sQQ")
_SLOT = struct.Struct("<Q")
_LOOK_SECONDS = 0.25
_MAGIC = b"IPJRNL1\n"


class Journal:
    """How far each segment of one large file has come. It exists from the file's first byte to its last."""

    def __init__(self, path: Path, size: int, segment: int) -> None:
        self._path = path
        self._grown = threading.Condition()
        self._closed = False
        self.size = size
        self.segment = segment
        self.count = max(1, -(-size // segment))
        header = _HEADER.pack(_MAGIC, size, segment)
        self.fresh = True
        if path.exists():
            old = path.read_bytes()
            self.fresh = old[: _HEADER.size] != header or len(old) != _HEADER.size + self.count * _SLOT.size
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if self.fresh:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, header + bytes(self.count * _SLOT.size), 0)
        slots = os.pread(self._fd, self.count * _SLOT.size, _HEADER.size)
        self.done = [min(value, self.length(n)) for n, (value,) in enumerate(_SLOT.iter_unpack(slots))]

    def begun(self, path: Path) -> list[int]:
        """How far each segment had come by the journal at `path`, of the same file; all 0 where that cannot be told."""
        try:
            old = path.read_bytes()
        except OSError:
            old = b""
        if old[: _HEADER.size] != _HEADER.pack(_MAGIC, self.size, self.segment) or len(old) != _HEADER.size + self.count * _SLOT.size:
            return [0] * self.count
        return [min(value, self.length(n)) for n, (value,) in enumerate(_SLOT.iter_unpack(old[_HEADER.size :]))]

    def length(self, number: int) -> int:
        """Bytes of one segment."""
        return min(self.segment, self.size - number * self.segment)

    def advance(self, number: int, count: int) -> None:
        """Note that `count` more bytes of a segment are written."""
        self.done[number] += count
        os.pwrite(self._fd, _SLOT.pack(self.done[number]), _HEADER.size + number * _SLOT.size)
        with self._grown:
            self._grown.notify_all()

    @property
    def complete(self) -> bool:
        """Whether every byte is written."""
        return sum(self.done) == self.size

    def reach(self, position: int, halted: Callable[[], bool]) -> int:
        """Until where the file is written without a gap, waiting until that is beyond `position`. Raises Stopped."""
        with self._grown:
            while (there := self._prefix()) <= position:
                if halted():
                    raise Stopped
                if self._closed:
                    raise RuntimeError(f"{self._path.name}: the transfer ended at byte {there} of {self.size}")
                self._grown.wait(_LOOK_SECONDS)
        return there

    def close(self) -> None:
        """Close the journal. It stays: whoever has synced the file removes it."""
        os.close(self._fd)
        with self._grown:
            self._closed = True
            self._grown.notify_all()

    def _prefix(self) -> int:
        there = 0
        for number, done in enumerate(self.done):
            there += done
            if done < self.length(number):
                break
        return there
