"""Programs of any size: our stack of N models, and the same resources in bare Pulumi.

The bare program declares what ours registered: same types, names, inputs, parents and dependencies, typed by the same SDK,
with none of our code left but empty components in place of ours.
"""

from __future__ import annotations

import functools
import importlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi

from infra.compose import compose
from rehearsal.engine.program.record import record
from rehearsal.engine.wire.recording import Recording, Registration
from rehearsal.engine.wire.values import reveal
from stackfile.reader import read_stack
from stackfile.settings import validate
from stackfile.stack import Stack, StackSecrets

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
  inferplan:apiKeySeed: {secure: v1:x:y}
  inferplan:models:
"""
_MODEL = """\
    model-{n}:
      engine: vllm
      weights: {{store: weights, path: model-{n}, revision: 8afb486c1db24fe5011ec46dfbe5b5dccdb575c2, size: 16Gi}}
      preheat: {{into: shared}}
      pool: l40s
      replicas: 1
      consumers: [chat]
"""


def stack_of(models: int) -> str:
    """A stack file of `models` models."""
    return _HEAD + "".join(_MODEL.format(n=n) for n in range(models))


def layered(count: int) -> Program:
    """Our stack of `count` models, each with preheat, keys and a route."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "Pulumi.benchmark.yaml"
        path.write_text(stack_of(count))
        settings = validate(read_stack(path))

    def program() -> None:
        secrets = StackSecrets((pulumi.Output.secret(_SEED),))
        compose(Stack("benchmark", settings, secrets, "/nowhere/kubeconfig")).export()

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


def _class_of(each: Registration) -> Callable[[str, dict[str, Any], pulumi.ResourceOptions], pulumi.Resource]:
    if not each.custom:
        return lambda name, arguments, options: pulumi.ComponentResource(each.type, name, arguments, options)
    if each.type == _NODE:
        return lambda name, arguments, options: pulumi.CustomResource(each.type, name, arguments, options)
    package, module, name = each.type.split(":")
    if package == "pulumi":
        kind = importlib.import_module(f"pulumi_{name}").Provider
    else:
        group, version = module.split("/")
        kind = getattr(importlib.import_module(f"pulumi_{package}.{group.partition('.')[0]}.{version}"), name)
    return lambda name, arguments, options: kind(name, opts=options, **arguments)


def _arguments(each: Registration) -> dict[str, Any]:
    inputs = reveal(each.inputs)
    if not each.custom or each.type == _NODE:
        return inputs
    return {_snake(key): value for key, value in inputs.items() if key not in ("apiVersion", "kind")}


def _snake(key: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
