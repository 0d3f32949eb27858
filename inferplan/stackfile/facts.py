"""The facts of a stack, as its parts state them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from inferplan.components.handles import Endpoint, speaks_grpc
from inferplan.components.nodes.facts import pool_facts
from inferplan.components.serving.facts import model_facts
from inferplan.kube.facts import Facts, StackFacts, document
from inferplan.stackfile.stack import StackSettings


def facts_of(
    spec: StackSettings, endpoints: Sequence[Endpoint], *, two_seeds: bool
) -> dict[str, Any]:
    """Return the facts of the stack as plain data; `two_seeds` is true while keys of the previous
    seed are valid too.
    """
    return document(_facts(spec, endpoints, two_seeds=two_seeds))


def _facts(
    spec: StackSettings, endpoints: Sequence[Endpoint], *, two_seeds: bool
) -> Iterator[tuple[str, Facts]]:
    history = {name: each.intent() for name, each in spec.key_history.items()}
    yield (
        "stack",
        StackFacts(namespace=spec.namespace, previous_seed=two_seeds, key_history=history),
    )
    yield "cluster", spec.cluster.facts
    if spec.gateway is not None:
        serves_grpc = speaks_grpc(endpoints) and spec.gateway.carries_grpc
        yield "gateway", replace(spec.gateway.facts, serves_grpc=serves_grpc)
    yield from ((name, each.facts) for name, each in spec.public_routes.items())
    yield from ((name, each.facts) for name, each in spec.consumers.items())
    for each in endpoints:
        model = spec.models[each.model]
        yield (
            each.model,
            model_facts(each, model, spec.storage, spec.node_pools[model.pool].target(model.pool)),
        )
    yield from ((name, pool_facts(name, each)) for name, each in spec.node_pools.items())
    yield from ((name, each.facts) for name, each in spec.storage.items())
