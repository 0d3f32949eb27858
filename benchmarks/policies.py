"""Measures the process of the policy pack: a resource over gRPC, a stack of 300 resources, and its
start; and how the rules grow with a stack of mixed resources.
"""

import copy
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from typing import Any

from pulumi.runtime.proto import analyzer_pb2
from pulumi.runtime.rpc import deserialize_properties

from benchmarks.measuring import ROOT, Result, at_most, median_ratio, processor_seconds, timed
from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.resource import Stack
from inferplan.policies.engine.settings import Settings
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.values import to_wire
from tests.policies.analyzer import analyze_stack, configure, pack
from tests.policies.cases import changed

RESOURCES = 300
RESOURCE_RATIO, STACK_RATIO, START_RATIO = 16.0, 12.0, 1.3
MIXED, GROWTH, IMPORTS = (1_000, 10_000), 11.0, 12.0
_REPEATS = 5
_ASSEMBLY = """from pathlib import Path
from inferplan.policies.dispatch import dispatchers
from inferplan.policies.engine.registry import all_rules
dispatchers(Path()), all_rules()
"""


def figures() -> Iterator[Result]:
    """Processor time of this process and the pack, relative to decoding the same requests; the start
    includes every rule.
    """
    base = changed("", {})
    custom = [each for each in base if each.custom]
    requests = [
        analyzer_pb2.AnalyzeRequest(
            type=each.type, properties=to_wire(each.inputs), urn=each.urn, name=each.name
        )
        for each in custom
    ]
    copies = (
        replace(
            each,
            urn=f"{each.urn}-{number}",
            name=f"{each.name}-{number}",
            inputs=copy.deepcopy(each.inputs),
        )
        for number in count()
        for each in base.registrations
    )
    large = replace(
        base, registrations=tuple(each for each, _ in zip(copies, range(RESOURCES), strict=False))
    )
    with pack() as stub:
        configure(stub, {})
        stub.Analyze(requests[0])  # the rules are loaded
        seconds = _spent(lambda: [stub.Analyze(request) for request in requests])
        yield at_most(
            f"{len(requests)} resources over gRPC, relative to decoding them",
            seconds / _decoding(requests),
            RESOURCE_RATIO,
        )
    with pack() as stub:
        configure(stub, {})
        stub.Analyze(requests[0])
        seconds = _spent(lambda: analyze_stack(stub, large))
        whole = [analyzer_pb2.AnalyzeRequest(properties=to_wire(each.inputs)) for each in large]
        yield at_most(
            f"a stack of {RESOURCES} resources over gRPC, relative to decoding them",
            seconds / _decoding(whole),
            STACK_RATIO,
        )
    with tempfile.TemporaryDirectory() as compiled:
        pairs = [
            (_start(_ASSEMBLY, compiled), _start("import pulumi_policy", compiled))
            for _ in range(_REPEATS)
        ]
        sdk = min(_start("import pulumi", compiled) for _ in range(_REPEATS))
    yield at_most(
        "start of the pack relative to import pulumi_policy",
        median_ratio(*zip(*pairs, strict=True)),
        START_RATIO,
    )
    for shared in (False, True):
        small, large = (_judged(base, size, shared=shared) for size in MIXED)
        name = f"check of {MIXED[1]} mixed resources in "
        name += "one namespace" if shared else "namespaces of their own"
        yield at_most(f"{name}, relative to {MIXED[0]}", large / small, GROWTH)
        yield at_most(f"{name}, relative to import pulumi", large / sdk, IMPORTS)


def _spent(work: Callable[[], object]) -> float:
    """Processor seconds of `work` in this process and its children, the mean of several runs: the
    system counts hundredths.
    """
    clock = partial(processor_seconds, os.getpid())
    return timed(lambda: [work() for _ in range(_REPEATS)], clock) / _REPEATS


def _judged(base: Recording, size: int, *, shared: bool) -> float:
    """Processor seconds of all rules on `size` resources: copies of `base` with names and labels
    of their own, in one namespace or in one for each copy.
    """
    own = stack_of(base)
    names = {each.name for each in own}
    for each in own:
        metadata = each.inputs.get("metadata") or {}
        names |= {metadata.get("name"), metadata.get("namespace"), each.inputs.get("bucket")}
    kept = {"inference"} if shared else set()

    def renamed(value: Any, copy: int) -> Any:
        if isinstance(value, dict):
            return {key: renamed(each, copy) for key, each in value.items()}
        if isinstance(value, list):
            return [renamed(each, copy) for each in value]
        return f"{value}-{copy}" if isinstance(value, str) and value in names - kept else value

    copies = (
        replace(
            each,
            inputs=renamed(each.inputs, copy),
            urn=f"{each.urn}-{copy}",
            name=f"{each.name}-{copy}",
            dependencies=tuple(f"{urn}-{copy}" for urn in each.dependencies),
        )
        for copy in count()
        for each in own
    )
    stack = Stack("growth", islice(copies, size), outputs=dict(base.outputs))
    start = time.process_time()
    check_stack(stack, Settings(today="2026-11-01"))
    return time.process_time() - start


def _decoding(requests: Sequence[analyzer_pb2.AnalyzeRequest]) -> float:
    """Processor seconds of turning the requests from bytes into plain data with the SDK, the best of several
    runs.
    """
    texts = [each.SerializeToString() for each in requests]
    decode = analyzer_pb2.AnalyzeRequest.FromString
    return min(
        timed(
            lambda: [deserialize_properties(decode(text).properties) for text in texts],
            time.process_time,
        )
        for _ in range(_REPEATS)
    )


def _start(statement: str, compiled: str) -> float:
    """Processor seconds of `statement` in a new process. From the second start on modules are
    compiled, as in any installation.
    """
    program = f"import time\n{statement}\nprint(time.process_time())"
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    environment["PYTHONPYCACHEPREFIX"] = compiled
    return float(
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            check=True,
        ).stdout
    )
