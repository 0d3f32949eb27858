"""The memory of a running process and of the processes that it started, in MiB."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path


def watch(process: subprocess.Popen[str], peak: list[float]) -> None:
    """Raise `peak[0]` to the most MiB that a process and its children held together, until the process ends."""
    while process.poll() is None:
        peak[0] = max(peak[0], sum(_anonymous_mib(pid) for pid in (process.pid, *_children(process.pid))))
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in path.read_text().split()]
    return found


def _anonymous_mib(pid: int) -> float:
    """Memory that nothing can evict: the text of four rclones is one file in the page cache."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024
    return 0.0
