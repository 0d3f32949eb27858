"""Faults of system calls on a share, by a library that is compiled once a session and preloaded
into the container's program.

The library sees what the program itself does; rclone calls the kernel without the C library, so its
own calls are not among them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

from .rig import Job, kill_group

EVERY = 1 << 30
STOP_SECONDS = 60
"""How long a container may take to its STOP, or to its end."""


@dataclass(frozen=True)
class Fault:
    """What happens to calls number `first` to `last` of one operation on paths that contain `text`:
    an errno's name, STOP or KILL.
    """

    action: str
    operation: str = "change"
    text: str = "*"
    first: int = 1
    last: int = 0

    def __str__(self) -> str:
        return (
            f"{self.operation}|{self.text}|{self.first}|{max(self.first, self.last)}|{self.action}"
        )


@functools.cache
def library() -> Path:
    """The compiled library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler `cc` on PATH; install Debian's package gcc")
    made = Path(tempfile.mkdtemp(prefix="disk-faults-")) / "disk_faults.so"
    source = Path(__file__).with_name("disk_faults.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-o", str(made), str(source), "-ldl"], check=True
    )
    return made


def arm(job: Job, *faults: Fault, log: Path | None = None) -> Job:
    """The same Job, whose program meets these faults on its share; its calls that change the share
    are appended to `log`.
    """
    job.env |= {
        "LD_PRELOAD": str(library()),
        "DISK_FAULTS_SHARE": str(job.target),
        "DISK_FAULTS": "\n".join(map(str, faults)),
    }
    if log is not None:
        job.env["DISK_FAULTS_LOG"] = str(log)
    return job


def stopped(process: subprocess.Popen[str]) -> bool:
    """Wait until the container stops at a STOP (true) or ends before it comes to one (false)."""
    overdue = threading.Event()

    def give_up() -> None:
        overdue.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    watchdog = threading.Timer(STOP_SECONDS, give_up)
    watchdog.start()
    try:
        _pid, status = os.waitpid(process.pid, os.WUNTRACED)
    finally:
        watchdog.cancel()
    assert not overdue.is_set(), f"neither stopped nor ended within {STOP_SECONDS} s"
    if os.WIFSTOPPED(status):
        # The leader is stopped; now the programs that it has started.
        os.killpg(process.pid, signal.SIGSTOP)
        return True
    process.returncode = os.waitstatus_to_exitcode(status)
    return False


def resume(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Let a stopped container go on to its end: its exit code and its output."""
    os.killpg(process.pid, signal.SIGCONT)
    try:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise
    return process.returncode, output
