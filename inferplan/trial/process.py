"""The process of an engine, its log, and its end together with all its children."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from inferplan.errors import RequestError

_END_SECONDS = 5.0
_POLL_SECONDS = 0.1
_KEPT_VARIABLES = ("PATH", "LANG", "HOME", "TMPDIR")


def free_port() -> int:
    """A port of the loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def interpreter(program: str, expected: str) -> Path:
    """The interpreter of an installed Python program: the one next to it, or that of its first line.
    Raises RequestError for another program; `expected` says which one to name.
    """
    path = Path(program).resolve()
    if (neighbour := path.with_name("python")).exists():
        return neighbour
    with path.open("rb") as stream:
        first = stream.readline(4096).decode(errors="replace").strip()
    named = Path(first.removeprefix("#!").split(" ")[0])
    if first.startswith("#!") and named.name.startswith("python"):
        return named
    raise RequestError(
        f"{path} is not a program of Python. Name {expected} in INFERPLAN_CPU_SERVER"
    )


def finished(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    too_late: str,
    *,
    text: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `command` on the input `text`, with `environment` and few of this process's variables.
    Raises RequestError with the message `too_late` after `seconds`.
    """
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    try:
        return subprocess.run(
            command,
            input=text,
            env={**kept, **environment},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RequestError(too_late) from None


class Process:
    """A started program; `log` is the file of all that it prints."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def exit_status(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """True if `condition` holds within `seconds`, before the process ends."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.exit_status is not None or time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)  # an engine announces its readiness by answering alone
        return True


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Iterator[Process]:
    """Run `command` in `folder` with `environment` alone; end its whole group afterwards, also at
    SIGTERM.
    """
    log = folder / "engine.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )

    def stop(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield Process(process, log)
    finally:
        signal.signal(signal.SIGTERM, before)
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
