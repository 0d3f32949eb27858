"""Reads a range of one file at its source through rclone, and goes on after every interruption until all of it came.

It holds one block of memory a reader, whatever the size of the file.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable

from .outcome import Exit, PreheatError, Stopped
from .patience import Patience
from .rclone import last_line
from .source import Source

_BLOCK = 1 << 20
_POLL_MILLISECONDS = 250

Take = Callable[[memoryview, int], None]


class Stream:
    """Ranges of a source's files. A connection that is silent for `stall_seconds` is dropped; `halted` ends everything."""

    def __init__(self, source: Source, patience: Patience, *, stall_seconds: float, halted: Callable[[], bool]) -> None:
        self._source = source
        self._patience = patience
        self._stall_seconds = stall_seconds
        self._halted = halted

    def read(self, path: str, offset: int, count: int, take: Take) -> None:
        """Hand `count` bytes of a file to `take`, block by block with their offsets.

        Raises PreheatError(SOURCE) after too many tries without a byte, and Stopped.
        """
        tries = 0
        while count:
            done, problem = self._pour(path, offset, count, take)
            offset, count = offset + done, count - done
            if not count:
                return
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

    def _pour(self, path: str, offset: int, count: int, take: Take) -> tuple[int, str]:
        """One try: how many bytes came, and why not all."""
        if self._halted():
            raise Stopped
        process = self._source.rclone.stream(self._source.location(path), offset, count)
        buffer = memoryview(bytearray(min(_BLOCK, count)))
        done = 0
        try:
            while done < count:
                filled, problem = self._fill(process, buffer[: count - done])
                if filled:
                    take(buffer[:filled], offset + done)
                    done += filled
                if problem:
                    return done, problem
            return done, ""
        finally:
            _end(process)

    def _fill(self, process: subprocess.Popen[bytes], buffer: memoryview) -> tuple[int, str]:
        """Fill the buffer, or as much of it as comes in one look: how much, and what ended the stream."""
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("rclone was started without pipes")
        out = process.stdout.fileno()
        poll = select.poll()
        poll.register(out, select.POLLIN)
        filled, since = 0, time.monotonic()
        while filled < len(buffer):
            if self._halted():
                raise Stopped
            if not poll.poll(_POLL_MILLISECONDS):
                if filled:
                    return filled, ""
                if time.monotonic() - since > self._stall_seconds:
                    return 0, f"no byte for {self._stall_seconds:.0f} s"
                continue
            got = os.readv(out, [buffer[filled:]])
            if not got:
                return filled, last_line(process.stderr.read()) or "the stream ended early"
            filled += got
        return filled, ""


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.wait()
