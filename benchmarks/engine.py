"""Measures `inferplan up` of a stack without changes under the Pulumi CLI, relative to `pulumi up`."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.measuring import ROOT, Result, at_most, costs_in_turns, median_ratio, unbounded
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE
from inferplan.rehearsal.cluster import delete, start
from inferplan.updating.pulumi_cli import simulated_environment
from tests.engine.requirement import REASON, engine_variables

STACK, CLUSTER = "local", "local"
RATIO = 1.3
# The CLI's own updates take 2 to 5 s.
_RUNS = 5


def figures() -> Iterator[Result]:
    if REASON:
        yield unbounded("inferplan up, relative to pulumi up", f"not measured: {REASON}")
        return
    with tempfile.TemporaryDirectory() as folder:
        variables = engine_variables(Path(folder) / "programs")
        os.environ.update(variables, INFERPLAN_STATE_DIR=str(Path(folder) / "state"))
        os.environ["PULUMI_CONFIG_PASSPHRASE"] = EXAMPLE_PASSPHRASE
        try:
            yield from _measure()
        finally:
            delete(CLUSTER)


def _measure() -> Iterator[Result]:
    os.environ.update(simulated_environment(start(CLUSTER)))
    inferplan = str(Path(sys.executable).parent / "inferplan")
    ours = [inferplan, "up", STACK, "--engine", "pulumi"]
    theirs = ["pulumi", "up", "--stack", STACK, "--yes", "--skip-preview", "--non-interactive"]
    # Both then find the stack as the other left it.
    subprocess.run(ours, cwd=ROOT, check=True, capture_output=True)
    measured = costs_in_turns(ours, theirs, runs=_RUNS)
    for name, index in (("processor time", 1), ("time", 0)):
        one, other = ([each[index] for each in costs] for costs in measured)
        yield unbounded(
            f"inferplan up and pulumi up without changes, {name}",
            f"{median(one):.2f} s, {median(other):.2f} s",
        )
        yield at_most(
            f"inferplan up, relative to pulumi up, {name}", median_ratio(one, other), RATIO
        )
