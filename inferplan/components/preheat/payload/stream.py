"""Reads ranges of files at the source through rclone, and continues after every interruption until all bytes have arrived.

Each reader holds at most one MiB, whatever the size of the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .certificates import untrusted
from .errors import Exit, PreheatError, Retries, Stopped
from .lease import Lease
from .progress import Progress
from .rclone import last_line, other_answer
from .request import Request
from .source import Source
from .staging import Staging

_MOST = 1 << 20
# A file system that cannot be spliced into, or a kernel that forbids it; macOS has no splice at all.
_NO_SPLICE = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP)
_POLL_MILLISECONDS = 250
_TRIES_OF_OTHER = 3
# A server that breaks off after a few bytes of every answer would be asked millions of times.
_LEAST_PROGRESS = 1 << 16

Pull = Callable[[int, int, int], int]
"""Takes bytes from a pipe, at most so many, for a position of the file: returns how many it took, 0 at the pipe's end."""


@dataclass(frozen=True)
class Transfer:
    """The state that all threads of one transfer share. `stop` ends it from outside, `halt` after the failure of one thread."""

    request: Request
    source: Source
    staging: Staging
    lease: Lease
    progress: Progress
    stop: threading.Event
    halt: threading.Event = field(default_factory=threading.Event)

    @property
    def retries(self) -> Retries:
        """The retries that the request allows for each file."""
        return Retries(self.request.retries, self.request.backoff_seconds, self.stop, self.progress.say)

    def halted(self) -> bool:
        return self.halt.is_set() or self.stop.is_set()

    def check(self) -> None:
        self.lease.check()
        if self.halted():
            raise Stopped


def read_range(transfer: Transfer, path: str, offset: int, count: int, pull: Pull) -> None:
    """Have `pull` take `count` bytes of a file from a pipe, at most one MiB at a time.

    Raises PreheatError(SOURCE) after too many tries with less than 64 KiB, Stopped, and what `pull` raises.
    """
    tries, retries = 0, transfer.retries
    while count:
        done, problem, most = _try(transfer, path, offset, count, pull)
        offset, count = offset + done, count - done
        if not count:
            return
        if refusal := untrusted(problem, transfer.source.name):
            raise refusal
        tries = 1 if done >= _LEAST_PROGRESS else tries + 1
        if tries > most:
            remedy = "check that it is up and that the key may read it; what has arrived stays, the next run continues"
            facts = {"file": path, "expected": f"{count} more bytes", "found": problem}
            raise PreheatError(Exit.SOURCE, "the source stopped sending", remedy, **facts, transient=True)
        retries.wait(tries, f"{path} from byte {offset}", problem, transfer.halted)


def _try(transfer: Transfer, path: str, offset: int, count: int, pull: Pull) -> tuple[int, str, int]:
    """One try: how many bytes arrived, why not all, and how often to try again without one."""
    if transfer.halted():
        raise Stopped
    silence, most = transfer.request.stall_seconds, transfer.retries.count
    process = transfer.source.mover.stream(transfer.source.location(path), offset, count)
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("the mover was started without pipes")
    out = process.stdout.fileno()
    poll = select.poll()
    poll.register(out, select.POLLIN)
    done, since, answer = 0, time.monotonic(), b""
    try:
        while done < count:
            if transfer.halted():
                raise Stopped
            if not poll.poll(_POLL_MILLISECONDS):
                if time.monotonic() - since > silence:
                    return done, f"no byte for {silence:.0f} s", most
                continue
            if not done:
                # The headers are there before the first byte.
                answer = _available(process.stderr.fileno())
                if other := other_answer(answer, offset):
                    return 0, f"the server answers a range with something else: {other}", min(_TRIES_OF_OTHER - 1, most)
            size = pull(out, min(_MOST, count - done), offset + done)
            if not size:
                return done, last_line(answer + process.stderr.read()) or "the stream ended early", most
            done, since = done + size, time.monotonic()
        return done, "", most
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.stdout.close()
        process.stderr.close()
        process.wait()


def _available(fd: int) -> bytes:
    """Read the bytes that a pipe holds now."""
    os.set_blocking(fd, False)
    try:
        return os.read(fd, _MOST)
    except BlockingIOError:
        return b""
    finally:
        os.set_blocking(fd, True)


def into_file(fd: int) -> Pull:
    """Moves bytes from a pipe into an open file inside the kernel, past this program's memory, if the kernel can."""

    def pull(pipe: int, most: int, offset: int) -> int:
        try:
            return os.splice(pipe, fd, most, offset_dst=offset)
        except (AttributeError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_SPLICE:
                raise
        block = memoryview(os.read(pipe, most))
        written = 0
        while written < len(block):
            written += os.pwrite(fd, block[written:], offset + written)
        return len(block)

    return pull


def into_hash(update: Callable[[memoryview], None]) -> Pull:
    buffer = memoryview(bytearray(_MOST))

    def pull(pipe: int, most: int, _offset: int) -> int:
        size = os.readv(pipe, [buffer[:most]])
        update(buffer[:size])
        return size

    return pull
