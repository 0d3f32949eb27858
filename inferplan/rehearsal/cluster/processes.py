"""Start, find and end the processes of one cluster: those that run its programs with its directory
on the command line.
"""

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from inferplan.errors import ClusterError
from inferplan.rehearsal.cluster.components import COMPONENTS, NODE, OPERATOR_PROGRAMS, SERVING
from inferplan.tables import table

_PROGRAMS = (*COMPONENTS, *OPERATOR_PROGRAMS, NODE, *SERVING)
_COMMANDS: dict[str, dict[str, str]] = table("rehearsal/cluster/commands.toml")
_PROC = Path("/proc")
_TERMINATE_SECONDS = 5.0
_POLL_SECONDS = 0.01
_LOG_LIMIT = 5_000_000

_spawned: dict[int, subprocess.Popen[bytes]] = {}


def spawn(
    component: str,
    program: Path,
    arguments: list[str],
    directory: Path,
    log: Path,
    environment: Mapping[str, str],
) -> int:
    """Start a program in `directory` and a new session, with output to `log`. Returns the process
    id. Raises ClusterError.
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
                env=_environment() | dict(environment),
            )
        except OSError as error:
            raise ClusterError(
                f"cannot run {component} ({program}): {error.strerror}",
                f"delete {program.parent} and run the same command again: it is built again",
            ) from error
    _spawned[process.pid] = process
    # `end` finds processes by their command line, which the system shows a moment after the start.
    while process.poll() is None and all(pid != process.pid for pid, _ in _command_lines()):
        time.sleep(_POLL_SECONDS)
    return process.pid


def _environment() -> dict[str, str]:
    # Not the caller's environment: a proxy variable would redirect requests to 127.0.0.1, and
    # secrets would leak.
    return {
        name: value
        for name in ("PATH", "HOME", "TMPDIR", "LANG")
        if (value := os.environ.get(name))
    }


def exit_status(pid: int) -> int | None:
    """Exit status of a process that this one started; None while it runs, or if another process
    started it.
    """
    process = _spawned.get(pid)
    return None if process is None else process.poll()


def running(directory: Path) -> dict[str, list[int]]:
    """Process ids of the cluster in `directory` by component; more than one after a start that was
    killed.
    """
    pids: dict[str, list[int]] = {}
    for pid, words in _command_lines():
        component, words = _identity(pid, words)  # noqa: PLW2901 - the words that may name the directory
        if (
            component in _PROGRAMS
            and f"{directory}/" in " ".join(words[1:])
            and exit_status(pid) is None
        ):
            pids.setdefault(component, []).append(pid)
    return pids


def _identity(pid: int, words: list[str]) -> tuple[str, list[str]]:
    """The component that a process is, and its words, with the working directory where a title has
    replaced them.
    """
    title = next((each for each in _COMMANDS["titles"] if words[0].startswith(each)), None)
    if title is not None:
        try:
            folder = [f"{(_PROC / str(pid) / 'cwd').readlink()}/"]
        except OSError:  # it has ended, or this system has no /proc; the title may have the folder
            folder = []
        return _COMMANDS["titles"][title], [*words, *folder]
    name = Path(words[0]).name
    if name.startswith("python"):
        return next(
            (
                each
                for word in words[1:4]
                if (each := _COMMANDS["python"].get(word.rpartition("/")[2]))
            ),
            name,
        ), words
    return name, words


def is_stopped(pid: int) -> bool:
    """True if the process is stopped by a signal; False if the system does not say."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in {"T", "t"}
    except OSError:
        return False


def _command_lines() -> list[tuple[int, list[str]]]:
    if not (_PROC / "self" / "cmdline").exists():
        return _command_lines_by_ps()
    lines = []
    for entry in os.listdir(_PROC):  # noqa: PTH208 - thousands of entries; Path objects take four times as long
        if not entry.isdigit():
            continue
        with suppress(OSError):
            raw = Path(f"/proc/{entry}/cmdline").read_bytes()
            if raw:
                lines.append((int(entry), raw.decode(errors="replace").rstrip("\0").split("\0")))
    return lines


def _command_lines_by_ps() -> list[tuple[int, list[str]]]:
    ps = shutil.which("ps")
    if ps is None:
        raise ClusterError(
            "cannot list processes: this system has no /proc and no ps",
            "install ps (package procps)",
        )
    answer = subprocess.run(
        [ps, "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    rows = (line.split(None, 1) for line in answer.stdout.splitlines())
    return [(int(row[0]), _words(row[1])) for row in rows if len(row) == 2]


def _words(command: str) -> list[str]:
    """The words of a command line as ps joins them; the program's path may have spaces."""
    program, _, options = command.partition(" -")
    return [program, *f"-{options}".split(" ")]


def end(directory: Path, components: Sequence[str] = _PROGRAMS) -> list[str]:
    """End the `components` of the cluster in `directory`; returns those that ran. Raises
    ClusterError if one does not end.
    """
    ended = []
    # A proxy that is still alive replaces a worker that has ended.
    while pids := {
        component: each for component, each in running(directory).items() if component in components
    }:
        # Controllers first: without their API server they fill their logs.
        for component in [each for each in reversed(_PROGRAMS) if each in pids]:
            for pid in pids[component]:
                _end_one(pid, component, directory)
            ended.append(component)
    return list(dict.fromkeys(ended))


def _end_one(pid: int, component: str, directory: Path) -> None:
    # Only etcd has data to write. The API server would wait for its clients for up to a minute
    # after SIGTERM.
    first = signal.SIGTERM if component == "etcd" else signal.SIGKILL
    for signal_number in (first, signal.SIGKILL):
        if not signal_own(pid, signal_number, directory) or _gone_within(pid, _TERMINATE_SECONDS):
            return
    raise ClusterError(
        f"process {pid} ({component}) does not end",
        f"inspect it with `ps -p {pid}`, end it and run the same command again",
    )


def signal_own(pid: int, number: signal.Signals, directory: Path) -> bool:
    """Signal the process if it still belongs to the cluster; False if it is gone. Without a race
    where the system has pidfds.
    """
    with suppress(ProcessLookupError), ExitStack() as stack:
        send = partial(os.kill, pid)
        if hasattr(
            os, "pidfd_open"
        ):  # refers to this process even if its number is reused after the check
            handle = os.pidfd_open(pid)
            stack.callback(os.close, handle)
            send = partial(signal.pidfd_send_signal, handle)
        if any(pid in pids for pids in running(directory).values()):
            send(number)
            return True
    return False


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
        with suppress(ProcessLookupError), ExitStack() as stack:
            handle = os.pidfd_open(pid)
            stack.callback(os.close, handle)
            return bool(select.select([handle], [], [], seconds)[0])
        return True
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(_POLL_SECONDS)  # this system cannot wait for a process that is not a child
    return False
