"""Measures how fast programs register: whether the time is linear in their size, and what a layer costs over bare resources.

Prints ratios of processor time taken in one run on one machine: a busy machine does not count, and absolute times
would say nothing on another. A program is made by a factory,
a function that takes a count and returns a program of that many units:

    python -m benchmarks.registration
    python -m benchmarks.registration --layered package.module:factory --bare package.module:factory

Without factories it measures the recorder itself with a neutral component around three resources.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Service

from benchmarks.ending import ended
from rehearsal.engine.program.record import record

Program = Callable[[], object]
Factory = Callable[[int], Program]

SMALL, LARGE = 100, 1000
LINEAR_LIMIT, LAYER_LIMIT = 12.0, 1.25


@dataclass(frozen=True, slots=True)
class Measured:
    """The best of several runs: processor `seconds` for `resources`."""

    seconds: float
    resources: int


class _Unit(pulumi.ComponentResource):
    """A component that does nothing but hold three resources."""

    def __init__(self, name: str) -> None:
        super().__init__("benchmarks:registration:Unit", name, {"spec": {"name": name}})
        _three(name, pulumi.ResourceOptions(parent=self))
        self.register_outputs({})


def _three(name: str, opts: pulumi.ResourceOptions | None = None) -> None:
    settings = ConfigMap(name, metadata={"name": name, "namespace": "n"}, data={"name": name}, opts=opts)
    labels = {"app": name}
    container = {"name": "server", "image": "server:1", "env": [{"name": "SETTINGS", "value": settings.metadata.name}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    metadata = {"name": name, "namespace": "n", "labels": labels}
    spec = {"replicas": 1, "selector": {"match_labels": labels}, "template": template}
    Deployment(name, metadata=metadata, spec=spec, opts=opts)  # pyrefly: ignore  # plain dictionaries, as programs write them
    Service(name, metadata={"name": name, "namespace": "n"}, spec={"selector": labels, "ports": [{"port": 80}]}, opts=opts)


def neutral(count: int) -> Program:
    """`count` components of three resources each."""

    def program() -> None:
        for index in range(count):
            _Unit(f"unit-{index}")

    return program


def bare(count: int) -> Program:
    """The resources of `neutral` without their components."""

    def program() -> None:
        for index in range(count):
            _three(f"unit-{index}")

    return program


def measure(program: Program, runs: int = 3) -> Measured:
    """The best of `runs` runs of `program`; garbage of the run before is collected outside the clock."""
    best, resources = float("inf"), 0
    for _ in range(runs):
        gc.collect()
        began = time.process_time()
        resources = len(record(program, project="benchmark", stack="registration"))
        best = min(best, time.process_time() - began)
    return Measured(best, resources)


def scaling(factory: Factory, small: int = SMALL, large: int = LARGE) -> float:
    """t(large) / t(small); equal to large / small when registering is linear."""
    measure(factory(small), runs=1)  # first use of a resource type resolves its types
    little, much = measure(factory(small)), measure(factory(large))
    per_second = much.resources / much.seconds
    print(f"  {small} units: {little.seconds:.3f} s, {large} units: {much.seconds:.3f} s ({per_second:.0f} resources a second)")
    return much.seconds / little.seconds


def overhead(layered: Factory, plain: Factory, count: int = 300) -> float:
    """t(layered) / t(plain) for the same count, measured in turns so that a slow moment hits both."""
    pairs = [(measure(layered(count), runs=1), measure(plain(count), runs=1)) for _ in range(4)][1:]
    over, under = (min(pair[side].seconds for pair in pairs) for side in (0, 1))
    print(f"  {count} units: layered {over:.3f} s ({pairs[0][0].resources} resources), bare {under:.3f} s ({pairs[0][1].resources})")
    return over / under


def _named(reference: str) -> Factory:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def main(layered: Factory = neutral, plain: Factory = bare) -> bool:
    """Print both ratios; whether both are within their limits."""
    print(f"registering {LARGE} units against {SMALL} (linear is {LARGE / SMALL:.0f}, limit {LINEAR_LIMIT:.0f})")
    ratio = scaling(layered)
    print(f"  ratio {ratio:.1f}")
    print(f"the layer against bare resources (limit {LAYER_LIMIT})")
    cost = overhead(layered, plain)
    print(f"  ratio {cost:.2f}")
    return ratio <= LINEAR_LIMIT and cost <= LAYER_LIMIT


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layered", type=_named, default=neutral, help="module:factory of the program with components")
    parser.add_argument("--bare", type=_named, default=bare, help="module:factory of the same resources without them")
    arguments = parser.parse_args()
    raise SystemExit(ended(lambda: 0 if main(arguments.layered, arguments.bare) else 1, "benchmarks.registration"))
