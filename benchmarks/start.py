"""Measures what a user waits for: `inferplan plan local` in a new process, against the budget and against `import pulumi`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.ending import ended

ROOT = Path(__file__).resolve().parent.parent
BUDGET_SECONDS = 2.0
RUNS = 5


def wall(command: list[str]) -> float:
    """Median wall seconds of `command` over RUNS runs after one to warm up."""
    environment = {**os.environ, "PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}
    taken = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def main() -> bool:
    """Prints the medians; whether the plan is within its budget."""
    inferplan = str(Path(sys.executable).parent / "inferplan")
    base = wall([sys.executable, "-c", "import pulumi"])
    figures = {"plan local": wall([inferplan, "plan", "local"]), "validate": wall([inferplan, "validate"])}
    print(f"  import pulumi: {base:.2f} s")
    for name, seconds in figures.items():
        print(f"  inferplan {name}: {seconds:.2f} s, {seconds / base:.1f} x import pulumi")
    print(f"  budget of plan local: {BUDGET_SECONDS} s")
    return figures["plan local"] <= BUDGET_SECONDS


if __name__ == "__main__":
    sys.exit(ended(lambda: 0 if main() else 1, "benchmarks.start"))
