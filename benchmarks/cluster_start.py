"""Measures a simulated cluster: the time to create, reuse, repair and delete it, and its memory."""

import os
import re
import signal
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Result, timed, unbounded
from inferplan.progress import plain
from inferplan.rehearsal.cluster import delete, start
from inferplan.rehearsal.cluster.processes import running
from inferplan.rehearsal.toolchain import ensure

_NAME, _ROUNDS = "bench", 5
_TICK = os.sysconf("SC_CLK_TCK")


def resident_mebibytes(directory: Path) -> float:
    """Resident memory of all the cluster's processes, in MiB; shared pages are counted in each."""
    pids = [pid for each in running(directory).values() for pid in each]
    statuses = [Path(f"/proc/{pid}/status").read_text(encoding="ascii") for pid in pids]
    # A process that ends has no VmRSS any more.
    sizes = (re.search(r"VmRSS:\s+([0-9]+)", status) for status in statuses)
    return sum(int(each[1]) for each in sizes if each) / 1024


def processor_seconds(directory: Path) -> dict[tuple[str, int], float]:
    """Processor time of each of the cluster's processes, by component and process id."""
    return {
        (name, pid): sum(map(int, Path(f"/proc/{pid}/stat").read_text().split()[13:15])) / _TICK
        for name, pids in running(directory).items()
        for pid in pids
    }


def measure(rounds: int) -> Iterator[Result]:
    """Medians of `rounds` rounds. A component is killed as the kernel kills it when memory runs
    out.
    """
    ensure(plain)
    times: defaultdict[str, list[float]] = defaultdict(list)
    memory = []
    for _ in range(rounds):
        times["create a cluster"].append(timed(lambda: start(_NAME)))
        directory = start(_NAME).directory
        times["reuse it"].append(timed(lambda: start(_NAME)))
        for component in ("kube-scheduler", "etcd"):
            os.kill(running(directory)[component][0], signal.SIGKILL)
            times[f"repair it after {component} was killed"].append(timed(lambda: start(_NAME)))
        memory.append(resident_mebibytes(directory))
        times["delete it"].append(timed(lambda: delete(_NAME)))
    for name, seconds in times.items():
        yield unbounded(
            name, f"{statistics.median(seconds):.2f} s (slowest of {rounds}: {max(seconds):.2f} s)"
        )
    yield unbounded("resident memory of the five programs", f"{statistics.median(memory):.0f} MiB")


def figures() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as state:
        os.environ["INFERPLAN_STATE_DIR"] = state
        try:
            yield from measure(_ROUNDS)
        finally:
            delete(_NAME)
