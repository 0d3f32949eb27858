"""Runs programs of this machine that make and fetch images."""

import errno
import os
import subprocess
from pathlib import Path

from inferplan.errors import RehearsalError

_SECONDS = 3600


def run(command: list[str], folder: Path, remedy: str = "try again") -> str:
    """Run `command` in `folder` and return its output. Raises OSError for a full disk, and
    RehearsalError with its last log line.
    """
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    if done.returncode and os.strerror(errno.ENOSPC).lower() in done.stderr.lower():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["it printed no error"]
        raise RehearsalError(f"{' '.join(command[:2])} failed: {words[-1]}", remedy)
    return done.stdout


def run_ctr(socket: Path, *arguments: str) -> str:
    """Run a command on the images of the containerd at `socket`, those of the kubelet."""
    return run(["ctr", "-a", str(socket), "-n", "k8s.io", "images", *arguments], socket.parent)
