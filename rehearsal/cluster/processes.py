"""Processes of one cluster: start them, find them again, end them; and nobody else's.

A process is a cluster's own when it is one of the five programs and its command line or working directory names the
cluster's directory. That holds for orphans of a killed start as well, and can never hold for a recycled process id,
so no id is written down anywhere.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rehearsal.cluster.components import COMPONENTS
from rehearsal.errors import ClusterError

_PROC = Path("/proc")
_TERMINATE_SECONDS = 5.0
_POLL_SECONDS = 0.01
_LOG_LIMIT = 5_000_000

_spawned: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Process:
    """One running program of a cluster."""

    component: str
    pid: int


def spawn(component: str, program: Path, arguments: list[str], directory: Path, log: Path) -> Process:
    """Start a program in `directory`, in a session of its own so that it outlives this one; its output goes to `log`.

    Raises:
        ClusterError: the program cannot be executed.
    """
    log.parent.mkdir(exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".old.log"))
    with log.open("ab") as stream:
        try:
            process = subprocess.Popen(
                [str(program), *arguments],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(),
            )
        except OSError as fault:
            raise ClusterError(
                f"cannot run {component} ({program}): {fault.strerror}",
                f"remove {program.parent} and run the same command again: it is built anew",
            ) from fault
    _spawned[process.pid] = process
    return Process(component, process.pid)


def _environment() -> dict[str, str]:
    # Nothing of the caller's environment: a proxy variable would send requests for 127.0.0.1 elsewhere, and secrets leak.
    return {name: value for name in ("PATH", "HOME", "TMPDIR", "LANG") if (value := os.environ.get(name))}


def exit_status(pid: int) -> int | None:
    """How a process that this one started ended; None while it runs, or where another process started it."""
    process = _spawned.get(pid)
    return None if process is None else process.poll()


def running(directory: Path) -> dict[str, list[int]]:
    """Process ids of the cluster in `directory`, by component; a component may have more than one after a killed start."""
    found: dict[str, list[int]] = {}
    for pid, words in _command_lines():
        component = Path(words[0]).name
        if component in COMPONENTS and _belongs(pid, words, directory):
            found.setdefault(component, []).append(pid)
    return found


def _belongs(pid: int, words: list[str], directory: Path) -> bool:
    prefix = f"{directory}/"
    return any(prefix in word for word in words[1:]) and not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    process = _spawned.get(pid)
    return process is not None and process.poll() is not None


def is_stopped(pid: int) -> bool:
    """Whether the process was stopped by a signal, so that it answers nobody; False where the system does not say."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in {"T", "t"}
    except OSError:
        return False


def _command_lines() -> list[tuple[int, list[str]]]:
    if not (_PROC / "self" / "cmdline").exists():
        return _command_lines_by_ps()
    found = []
    for entry in os.listdir(_PROC):  # noqa: PTH208 - thousands of entries at each status; Path objects take four times as long
        if not entry.isdigit():
            continue
        with suppress(OSError):
            raw = Path(f"/proc/{entry}/cmdline").read_bytes()
            if raw:
                found.append((int(entry), raw.decode(errors="replace").rstrip("\0").split("\0")))
    return found


def _command_lines_by_ps() -> list[tuple[int, list[str]]]:
    ps = shutil.which("ps")
    if ps is None:
        raise ClusterError("neither /proc nor the program ps is here, so running processes cannot be found", "install ps (package procps)")
    answer = subprocess.run([ps, "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
    rows = (line.split(None, 1) for line in answer.stdout.splitlines())
    return [(int(row[0]), row[1].split(" ")) for row in rows if len(row) == 2]


def end(directory: Path, components: Sequence[str] = COMPONENTS) -> list[str]:
    """End the `components` of the cluster in `directory` and wait until they are gone; returns those that ran.

    Raises:
        ClusterError: a process does not die.
    """
    found = running(directory)
    # Last started first: controllers that lose their API server fill their logs with complaints.
    ended = [component for component in reversed(COMPONENTS) if component in components and component in found]
    for component in ended:
        for pid in found[component]:
            _end_one(pid, component, directory)
    return ended


def _end_one(pid: int, component: str, directory: Path) -> None:
    # etcd is the only one with something to lose, and it is made to lose nothing when killed; the API server waits for
    # its clients when asked politely, up to a minute.
    first = signal.SIGTERM if component == "etcd" else signal.SIGKILL
    for signal_number in (first, signal.SIGKILL):
        if not _signal_own(pid, signal_number, directory) or _gone_within(pid, _TERMINATE_SECONDS):
            return
    raise ClusterError(f"process {pid} ({component}) does not end", f"look at it with `ps -p {pid}`, end it and run the same command again")


def _signal_own(pid: int, signal_number: signal.Signals, directory: Path) -> bool:
    """Signal the process if it still is the cluster's own; False where it is gone. Race-free where the system can."""
    if not hasattr(os, "pidfd_open"):
        if pid in {each for pids in running(directory).values() for each in pids}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal_number)
                return True
        return False
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The handle keeps naming this process whatever happens to its number, so the check cannot go stale.
        if pid not in {each for pids in running(directory).values() for each in pids}:
            return False
        signal.pidfd_send_signal(handle, signal_number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _gone_within(pid: int, seconds: float) -> bool:
    process = _spawned.get(pid)
    if process is not None:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        del _spawned[pid]
        return True
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([handle], [], [], seconds)[0])
        finally:
            os.close(handle)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(_POLL_SECONDS)  # this system has no way to wait for a process that is not a child
    return False
