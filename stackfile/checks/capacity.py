"""Checks that the pods of a stack can be scheduled on the nodes that its pools really get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.platforms.node_counts import Shortage, shortages
from components.spec import SpecError

if TYPE_CHECKING:
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check every pool against its pods. Pools whose models exceed the accelerators of all nodes are reported at the model."""
    for shortage in shortages(settings.cluster, settings):
        pool = settings.node_pools[shortage.pool]
        models = [model for model in settings.models.values() if model.pool == shortage.pool]
        if sum(model.most_accelerators for model in models) <= pool.max_nodes * pool.capacity.accelerators or not models:
            yield SpecError(("nodePools", shortage.pool, pool.size_field), _message(settings, shortage))


def _message(settings: StackSettings, shortage: Shortage) -> str:
    pool, needed = settings.node_pools[shortage.pool], f"but {shortage.pods} need {shortage.needed}"
    if shortage.grows:
        return (
            f"Pool {shortage.pool!r} grows to {nodes(shortage.nodes)}, {needed}. Write {pool.enlarged(shortage.needed)}, or lower replicas."
        )
    if pool.initial_nodes == pool.max_nodes:
        return f"Pool {shortage.pool!r} has {nodes(shortage.nodes)}, {needed}. Write {pool.sized(shortage.needed)}, or lower replicas."
    remedies = [f"{each} under cluster" for each in settings.cluster.autoscaler_remedies]
    remedies.append(f"{pool.sized(shortage.needed)} under nodePools.{shortage.pool}")
    return (
        f"Pool {shortage.pool!r} has {nodes(shortage.nodes)} on the first day and nothing adds nodes, {needed}. "
        f"Write {', or '.join(remedies)}."
    )


def nodes(count: int) -> str:
    """Return `count` with its noun."""
    return f"{count} node{'' if count == 1 else 's'}"
