"""Runs every benchmark and prints each figure with its budget, its baseline or its peer.

Ratios come from one run on one machine; absolute times are said with the machine they were taken on.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.ending import INTERRUPTED, ended

ROOT = Path(__file__).resolve().parent.parent
# In the order of a user's day: what a plan costs, what registering costs, what a cluster costs, then the data plane.
BENCHMARKS: tuple[tuple[str, ...], ...] = (
    ("benchmarks.start",),
    ("benchmarks.aws_start",),
    ("benchmarks.config_check",),
    ("benchmarks.registration", "--layered", "benchmarks.stacks:layered", "--bare", "benchmarks.stacks:bare"),
    ("benchmarks.cluster_start",),
    ("benchmarks.gateway",),
    ("benchmarks.gateway_refusals",),
    ("benchmarks.preheat",),
    ("benchmarks.report",),
    ("benchmarks.policies",),
    ("benchmarks.policy_corpus",),
)


# How long a benchmark may take to stop what it started, a cluster among it.
_STOP_SECONDS = 120


def main() -> int:
    """Runs all, says which missed a budget, and returns how many did; 130 when it is interrupted."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    missed = []
    for module, *arguments in BENCHMARKS:
        print(f"\n{module}", flush=True)
        code = _measured(module, arguments)
        if code == INTERRUPTED:
            return code
        if code:
            missed.append(module)
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall within their budgets")
    return len(missed)


def _measured(module: str, arguments: Sequence[str]) -> int:
    """The exit code of one benchmark. In a session of its own: Ctrl-C comes here alone, and from here once, to the process that can stop the rest."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if process.wait(_STOP_SECONDS) == INTERRUPTED:
                return INTERRUPTED  # it has told so itself
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


if __name__ == "__main__":
    sys.exit(ended(main, "benchmarks"))
