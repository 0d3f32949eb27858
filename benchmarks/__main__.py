"""Runs every benchmark and prints each figure beside its budget, its baseline or its peer.

Ratios come from one run on one machine; absolute times are said with the machine they were taken on.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

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
)


def main() -> int:
    """Runs all, says which missed a budget, and returns how many did."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    missed = []
    for module, *arguments in BENCHMARKS:
        print(f"\n{module}", flush=True)
        if subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=False).returncode:
            missed.append(module)
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall within their budgets")
    return len(missed)


if __name__ == "__main__":
    sys.exit(main())
