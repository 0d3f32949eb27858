"""Measures a simulated cluster: the time to create, reuse, repair and delete it, and its memory.

Run: `python -m benchmarks.cluster_start [ROUNDS]`. It uses a state directory of its own and removes it.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.ending import ended
from rehearsal.cluster import delete, start
from rehearsal.cluster.processes import running
from rehearsal.progress import plain
from rehearsal.toolchain import ensure

_NAME = "bench"


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def resident_mebibytes(directory: Path) -> float:
    """Resident memory of all the cluster's processes, in MiB; shared pages are counted in each."""
    total = 0
    for pids in running(directory).values():
        for pid in pids:
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            total += int(status.partition("VmRSS:")[2].split()[0])
    return total / 1024


def kill(directory: Path, component: str) -> None:
    """Kill one component as the kernel's out-of-memory killer would."""
    os.kill(running(directory)[component][0], signal.SIGKILL)


def main(rounds: int) -> None:
    """Measure `rounds` times and print medians, with the slowest in brackets."""
    ensure(plain)
    times: dict[str, list[float]] = {}
    memory = []

    def note(what: str, action: Callable[[], object]) -> None:
        times.setdefault(what, []).append(seconds(action))

    for _ in range(rounds):
        note("make a new cluster", lambda: start(_NAME))
        directory = start(_NAME).directory
        note("reuse it", lambda: start(_NAME))
        for component in ("kube-scheduler", "etcd"):
            kill(directory, component)
            note(f"repair it after {component} was killed", lambda: start(_NAME))
        memory.append(resident_mebibytes(directory))
        note("delete it", lambda: delete(_NAME))
    for what, taken in times.items():
        print(f"{what:45} {statistics.median(taken):6.2f} s   (slowest of {rounds}: {max(taken):.2f} s)")
    print(f"{'resident memory of the five programs':45} {statistics.median(memory):6.0f} MiB")


def _apart() -> int:
    with tempfile.TemporaryDirectory() as state:
        os.environ["INFERPLAN_STATE_DIR"] = state
        try:
            main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
        finally:
            delete(_NAME)
    return 0


if __name__ == "__main__":
    sys.exit(ended(_apart, "benchmarks.cluster_start"))
