"""Reads a range of one file at its source through rclone, and goes on after every interruption until all of it came.

It holds at most one MiB a reader, whatever the size of the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import subprocess
import time
from collections.abc import Callable

from .certificates import untrusted
from .errors import Exit, PreheatError, Stopped
from .patience import Patience
from .rclone import last_line
from .source import Source

_MOST = 1 << 20
# A file system that cannot be spliced into, or a kernel that forbids it; macOS has no splice at all.
_NO_SPLICE = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP)
_POLL_MILLISECONDS = 250

Pull = Callable[[int, int, int], int]
"""Takes from a pipe what is there, at most so many bytes, meant for an offset: how many it took, 0 at the pipe's end."""


class Stream:
    """Ranges of a source's files. A connection that is silent for `stall_seconds` is dropped; `halted` ends everything."""

    def __init__(self, source: Source, patience: Patience, *, stall_seconds: float, halted: Callable[[], bool]) -> None:
        self._source = source
        self._patience = patience
        self._stall_seconds = stall_seconds
        self._halted = halted

    def read(self, path: str, offset: int, count: int, pull: Pull) -> None:
        """Have `pull` take `count` bytes of a file from a pipe, at most a MiB at a time.

        Raises PreheatError(SOURCE) after too many tries without a byte, Stopped, and whatever `pull` raises.
        """
        tries = 0
        while count:
            done, problem = self._pour(path, offset, count, pull)
            offset, count = offset + done, count - done
            if not count:
                return
            if refusal := untrusted(problem, self._source.name):
                raise refusal
            tries = 1 if done else tries + 1
            if self._patience.ended(tries):
                raise PreheatError(
                    Exit.SOURCE,
                    "the source stopped sending",
                    "check that it is up and that the key may read it; what has arrived stays, the next run goes on",
                    file=path,
                    expected=f"{count} more bytes",
                    found=problem,
                    transient=True,
                )
            self._patience.wait(tries, f"{path} from byte {offset}", problem, self._halted)

    def _pour(self, path: str, offset: int, count: int, pull: Pull) -> tuple[int, str]:
        """One try: how many bytes came, and why not all."""
        if self._halted():
            raise Stopped
        process = self._source.rclone.stream(self._source.location(path), offset, count)
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("rclone was started without pipes")
        out = process.stdout.fileno()
        poll = select.poll()
        poll.register(out, select.POLLIN)
        done, since = 0, time.monotonic()
        try:
            while done < count:
                if self._halted():
                    raise Stopped
                if not poll.poll(_POLL_MILLISECONDS):
                    if time.monotonic() - since > self._stall_seconds:
                        return done, f"no byte for {self._stall_seconds:.0f} s"
                    continue
                taken = pull(out, min(_MOST, count - done), offset + done)
                if not taken:
                    return done, last_line(process.stderr.read()) or "the stream ended early"
                done, since = done + taken, time.monotonic()
            return done, ""
        finally:
            _end(process)


def into_file(fd: int) -> Pull:
    """Moves bytes from a pipe into an open file inside the kernel, so that they never pass through this program."""
    if not hasattr(os, "splice"):
        return _copied_into(fd)
    copied = _copied_into(fd)

    def pull(pipe: int, most: int, offset: int) -> int:
        try:
            return os.splice(pipe, fd, most, offset_dst=offset)
        except OSError as error:
            if error.errno not in _NO_SPLICE:
                raise
            return copied(pipe, most, offset)

    return pull


def into_hash(update: Callable[[memoryview], None]) -> Pull:
    """Hands bytes from a pipe to a hash and forgets them."""
    buffer = memoryview(bytearray(_MOST))

    def pull(pipe: int, most: int, _offset: int) -> int:
        taken = os.readv(pipe, [buffer[:most]])
        update(buffer[:taken])
        return taken

    return pull


def _copied_into(fd: int) -> Pull:
    def pull(pipe: int, most: int, offset: int) -> int:
        block = memoryview(os.read(pipe, most))
        written = 0
        while written < len(block):
            written += os.pwrite(fd, block[written:], offset + written)
        return len(block)

    return pull


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.wait()
