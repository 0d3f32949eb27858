"""Runs engine processes on this computer, with their logs, and ends them together with all their
children.
"""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from inferplan.interrupts import delayed_interrupts

_END_SECONDS = 5.0
POLL_SECONDS = 0.1


def free_port() -> int:
    """A port of the loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A started program, which prints into the file `log`. Readers of the log do not see `hidden`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        log: IO[bytes],
        poll_seconds: float,
        check: Callable[[int, str], None] | None,
        hidden: str,
    ) -> None:
        self._process = process
        self._log = log
        self._poll_seconds = poll_seconds
        self._check = check
        self._hidden = hidden

    @property
    def log(self) -> str:
        return self._printed.replace(self._hidden, "", 1)

    @property
    def _printed(self) -> str:
        # The program writes at the position of the same descriptor.
        number = self._log.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")

    @property
    def exit_status(self) -> int | None:
        """The exit code, None while it runs. Raises what `check` raises for it."""
        status = self._process.poll()
        if status is not None and self._check is not None:
            self._check(status, self._printed)
        return status

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """True if `condition` holds within `seconds`, before the process ends."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.exit_status is not None or time.monotonic() > deadline:
                return False
            time.sleep(self._poll_seconds)  # an engine announces its readiness by answering alone
        return True


@contextmanager
def started(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    poll_seconds: float = POLL_SECONDS,
    check: Callable[[int, str], None] | None = None,
    hidden: str = "",
) -> Iterator[Process]:
    """Run `command` in `folder` with `environment` alone; end its whole group afterwards, also at
    SIGTERM. `check` judges its exit code and all that it prints, of which logs leave out `hidden`.
    The file of the log has no path, because the code of a model may write into `folder`.
    """

    def stop(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with tempfile.TemporaryFile() as log, delayed_interrupts() as deliver_interrupts:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        try:
            deliver_interrupts()
            before = signal.signal(signal.SIGTERM, stop)
            try:
                yield Process(process, log, poll_seconds, check, hidden)
            finally:
                signal.signal(signal.SIGTERM, before)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
