"""Checks stores of kind nodeDisk: a pool of constant size, a directory that can be created, models on the same pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.spec import KeyPath, SpecError
from components.storage.volume_spec import NodeDiskStoreSpec
from stackfile.checks.references import unknown

if TYPE_CHECKING:
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check the pools of stores of kind nodeDisk."""
    for name, store in settings.storage.items():
        if not isinstance(store, NodeDiskStoreSpec):
            continue
        path = ("storage", name, "pool")
        pool = settings.node_pools.get(store.pool)
        if pool is None:
            yield unknown(path, store.pool, "pool", settings.node_pools, "nodePools")
        elif pool.min_nodes != pool.max_nodes:
            yield SpecError(
                path,
                f"Pool {store.pool!r} has {pool.min_nodes} to {pool.max_nodes} nodes, and a node that joins later has an empty disk. "
                "Set size.min and size.max to the same number, or use a store of kind efs or nfs.",
            )
        elif pool.directory_error is not None:
            yield SpecError(path, f"Pool {store.pool!r} {pool.directory_error}, or a store of kind efs or nfs.")


def errors_of_pool(model: str, pool: str, name: str, store: NodeDiskStoreSpec, path: KeyPath) -> Iterator[SpecError]:
    """Check that `model` on `pool` reads a nodeDisk store of the same pool; `path` is where it names the store."""
    if pool != store.pool:
        yield SpecError(
            path,
            f"{name!r} is on the nodes of pool {store.pool!r}, but {model} runs on {pool!r}. Use a store of pool {pool!r}, or one of kind efs or nfs.",
        )
