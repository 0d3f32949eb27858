"""Measures the cost of the policy pack: a resource over gRPC, a stack of 300 resources, and the start of the pack's process.

Ratios and processor time where the machine's load would decide otherwise; the pack is the real process, spoken to as the engine does.
"""

from __future__ import annotations

import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.ending import ended
from tests.policies.analyzer import analyze_stack, configure, pack
from tests.policies.cases import changed

RESOURCES = 300
RESOURCE_BUDGET_MS = 2.0
STACK_BUDGET_SECONDS = 0.5
START_BUDGET_RATIO = 1.3
_REPEATS = 5
_ASSEMBLY = "from policies.dispatch import dispatchers; from policies.engine.registry import all_rules; dispatchers(); all_rules()"
_ROOT = Path(__file__).resolve().parents[1]


def milliseconds_a_resource() -> float:
    """The mean over the kinds of the base stack, of the best of several runs, in ms."""
    from pulumi.runtime.proto import analyzer_pb2

    from rehearsal.engine.wire.values import to_wire

    base = [each for each in changed("", {}) if each.custom]
    requests = [analyzer_pb2.AnalyzeRequest(type=each.type, properties=to_wire(each.inputs), urn=each.urn, name=each.name) for each in base]
    with pack() as stub:
        configure(stub, {})
        best = float("inf")
        for _ in range(_REPEATS + 1):
            began = time.perf_counter()
            for request in requests:
                stub.Analyze(request)
            best = min(best, time.perf_counter() - began)
    return best * 1000 / len(requests)


def seconds_a_stack() -> float:
    """The stack check of RESOURCES resources over gRPC, the best of several runs, in seconds."""
    import dataclasses

    base = changed("", {})
    copies = []
    while len(copies) < RESOURCES:
        round_ = len(copies)
        for each in base.registrations:
            inputs = copy.deepcopy(each.inputs)
            copies.append(dataclasses.replace(each, urn=f"{each.urn}-{round_}", name=f"{each.name}-{round_}", inputs=inputs))
    large = dataclasses.replace(base, registrations=tuple(copies[:RESOURCES]))
    with pack() as stub:
        configure(stub, {})
        best = float("inf")
        for _ in range(_REPEATS):
            began = time.perf_counter()
            analyze_stack(stub, large)
            best = min(best, time.perf_counter() - began)
    return best


def start_ratio() -> float:
    """Processor time of the pack's imports, every rule among them, and assembly, over that of `import pulumi_policy`; the median of pairs."""
    with tempfile.TemporaryDirectory() as compiled:
        pairs = [(_start(_ASSEMBLY, compiled), _start("import pulumi_policy", compiled)) for _ in range(_REPEATS)]
    return statistics.median(ours / theirs for ours, theirs in pairs)


def _start(statement: str, compiled: str) -> float:
    program = f"import time\n{statement}\nprint(time.process_time())"
    # From the second start on modules are compiled, as in any installation.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = compiled
    done = subprocess.run([sys.executable, "-c", program], cwd=_ROOT, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    """Print the figures; 1 when a budget is exceeded."""
    resource, stack, ratio = milliseconds_a_resource(), seconds_a_stack(), start_ratio()
    print(f"policies, one resource over gRPC: {resource:.2f} ms of {RESOURCE_BUDGET_MS} ms")
    print(f"policies, stack check of {RESOURCES} resources over gRPC: {stack:.2f} s of {STACK_BUDGET_SECONDS} s")
    print(f"policies, start of the pack: {ratio:.2f} of {START_BUDGET_RATIO} times import pulumi_policy")
    return int(resource > RESOURCE_BUDGET_MS or stack > STACK_BUDGET_SECONDS or ratio > START_BUDGET_RATIO)


if __name__ == "__main__":
    sys.exit(ended(main, "benchmarks.policies"))
