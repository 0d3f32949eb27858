"""Measures how fast our program registers: whether the time is linear in the number of models, and what it adds to bare resources.

Both are ratios of processor time of one run on one machine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

from benchmarks.measuring import Result, at_most, run, unbounded
from benchmarks.stacks import Program, bare, layered
from rehearsal.engine.program.record import record

SMALL, LARGE, COMPARED = 100, 1000, 300
LINEAR_LIMIT, LAYER_LIMIT = 12.0, 1.25


def measure(program: Program, runs: int = 3) -> tuple[float, int]:
    """The best processor time of `runs` runs of `program`, and its resources; garbage is collected outside the clock."""
    best, resources = float("inf"), 0
    for _ in range(runs):
        gc.collect()
        began = time.process_time()
        resources = len(record(program, project="benchmark", stack="registration"))
        best = min(best, time.process_time() - began)
    return best, resources


def figures() -> Iterator[Result]:
    """The growth from SMALL to LARGE models, and our layer over bare resources, measured in turns so that a slow moment hits both."""
    measure(layered(SMALL), runs=1)  # the first use of a resource type resolves its types
    (small, _), (large, resources) = measure(layered(SMALL)), measure(layered(LARGE))
    yield unbounded(f"registering {LARGE} models", f"{large:.2f} s, {resources / large:.0f} resources a second")
    yield at_most(f"{LARGE} models relative to {SMALL} (linear is {LARGE // SMALL})", large / small, LINEAR_LIMIT)
    ours, theirs = layered(COMPARED), bare(COMPARED)
    pairs = [(measure(ours, runs=1)[0], measure(theirs, runs=1)[0]) for _ in range(4)][1:]
    over, under = (min(times) for times in zip(*pairs, strict=True))
    yield at_most(f"{COMPARED} models relative to their bare resources", over / under, LAYER_LIMIT)


if __name__ == "__main__":
    run(figures, "benchmarks.registration")
