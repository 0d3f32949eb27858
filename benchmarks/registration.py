"""Measures how fast our program registers: whether the time is linear in the number of models, and
what it adds to bare resources.

Both are ratios of processor time of one run on one machine. The bare program declares what our
program registered: same types, names, inputs, parents and dependencies, typed by the same SDK, with
none of our code left but empty components in place of ours.
"""

import functools
import gc
import importlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulumi
from pydantic.alias_generators import to_snake

from benchmarks.measuring import Result, at_most, models_section, unbounded
from inferplan.infra.compose import compose
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording, Registration
from inferplan.pulumi_engine.values import reveal
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.stackfile.stack import Stack, StackSecrets

SMALL, LARGE, COMPARED = 100, 1000, 300
LINEAR_LIMIT, LAYER_LIMIT = 12.0, 1.15
Program = Callable[[], object]
_SEED = "f2b1c0d9e8a7968574635241302f1e0dccbbaa99887766554433221100ffeedd"
_NODE = "kubernetes:core/v1:Node"
_HEAD = """\
config:
  inferplan:cluster: {provider: simulated}
  inferplan:nodePools:
    l40s: {provider: simulated, accelerator: nvidia-l40s, nodes: 1000}
  inferplan:storage:
    weights: {kind: s3, bucket: acme-weights, prefix: llm}
    shared: {kind: nfs, server: nfs.storage.svc, path: /export/models, capacity: 100Ti}
  inferplan:gateway: {host: llm.local.test, insecure: true, ingressClassName: nginx}
  inferplan:consumers: {chat: {keys: [2, 1]}}
  inferplan:keyHistory: {chat: {issued: 2}}
  inferplan:apiKeySeed: {secure: v1:x:y}
  inferplan:models:
"""


def measure(program: Program, runs: int = 3) -> tuple[float, int]:
    """The best processor time of `runs` runs of `program`, and its resources; garbage is collected
    outside the clock.
    """
    best, resources = float("inf"), 0
    for _ in range(runs):
        gc.collect()
        began = time.process_time()
        resources = len(record(program, project="benchmark", stack="registration"))
        best = min(best, time.process_time() - began)
    return best, resources


def figures() -> Iterator[Result]:
    """The growth from SMALL to LARGE models, and our layer over bare resources, measured in turns
    so that a slow moment hits both.
    """
    measure(layered(SMALL), runs=1)  # the first use of a resource type resolves its types
    (small, _), (large, resources) = measure(layered(SMALL)), measure(layered(LARGE))
    yield unbounded(
        f"registering {LARGE} models", f"{large:.2f} s, {resources / large:.0f} resources a second"
    )
    yield at_most(
        f"{LARGE} models relative to {SMALL} (linear is {LARGE // SMALL})",
        large / small,
        LINEAR_LIMIT,
    )
    ours, theirs = layered(COMPARED), bare(COMPARED)
    pairs = [(measure(ours, runs=1)[0], measure(theirs, runs=1)[0]) for _ in range(4)][1:]
    over, under = (min(times) for times in zip(*pairs, strict=True))
    yield at_most(f"{COMPARED} models relative to their bare resources", over / under, LAYER_LIMIT)


def stack_of(models: int) -> str:
    return _HEAD + models_section(models, replicas=1)


def layered(count: int) -> Program:
    """Our stack of `count` models, each with preheat, keys and a route."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "Pulumi.benchmark.yaml"
        path.write_text(stack_of(count))
        settings = validate(read_stack(path))

    def program() -> None:
        secrets = StackSecrets((pulumi.Output.secret(_SEED),))
        compose(Stack("benchmark", settings, secrets, "/nowhere/kubeconfig"))

    return program


def bare(count: int) -> Program:
    """The resources of `layered(count)` declared by the SDK's classes alone."""
    plan = [(_class_of(each), each, _arguments(each)) for each in _recorded(count)]

    def program() -> None:
        made: dict[str, pulumi.Resource] = {}
        for make, each, arguments in plan:
            options = pulumi.ResourceOptions(
                parent=made.get(each.parent),
                depends_on=[made[urn] for urn in each.dependencies if urn in made],
                provider=made.get(each.provider) if each.custom else None,  # pyrefly: ignore  # the map holds every kind of resource
            )
            made[each.urn] = make(each.name, arguments, options)

    return program


@functools.cache
def _recorded(count: int) -> Recording:
    return record(layered(count), project="benchmark", stack="registration")


def _class_of(
    each: Registration,
) -> Callable[[str, dict[str, Any], pulumi.ResourceOptions], pulumi.Resource]:
    if not each.custom:
        return lambda name, arguments, options: pulumi.ComponentResource(
            each.type, name, arguments, options
        )
    if each.type == _NODE:
        return lambda name, arguments, options: pulumi.CustomResource(
            each.type, name, arguments, options
        )
    package, module, name = each.type.split(":")
    if package == "pulumi":
        kind = importlib.import_module(f"pulumi_{name}").Provider
    else:
        group, version = module.split("/")
        kind = getattr(
            importlib.import_module(f"pulumi_{package}.{group.partition('.')[0]}.{version}"), name
        )
    return lambda name, arguments, options: kind(name, opts=options, **arguments)


def _arguments(each: Registration) -> dict[str, Any]:
    inputs = reveal(each.inputs)
    if not each.custom or each.type == _NODE:
        return inputs
    return {
        to_snake(key): value for key, value in inputs.items() if key not in ("apiVersion", "kind")
    }
