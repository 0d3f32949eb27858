"""Whether disks of nodes fit the pools that they belong to: nodes that stay, a directory that is there, models that run beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.nodes.eks_spec import EksPool
from components.spec import KeyPath, SpecError
from components.storage.disk_spec import NodeDiskStoreSpec
from stackfile.checks.references import unknown

if TYPE_CHECKING:
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Faults of stores of kind nodeDisk."""
    for name, store in settings.storage.items():
        if not isinstance(store, NodeDiskStoreSpec):
            continue
        path = ("storage", name, "pool")
        pool = settings.node_pools.get(store.pool)
        if pool is None:
            yield unknown(path, store.pool, "pool", settings.node_pools, "nodePools")
        elif isinstance(pool, EksPool) and pool.size.min != pool.size.max:
            yield SpecError(
                path,
                f"pool {store.pool!r} has {pool.size.min} to {pool.size.max} nodes, and one that joins later comes with an empty disk; "
                "use a store of kind efs or nfs, or make size.min and size.max the same",
            )
        elif isinstance(pool, EksPool) and pool.ami.startswith("BOTTLEROCKET"):
            yield SpecError(
                path,
                f"nodes of pool {store.pool!r} run Bottlerocket, where no directory can be made at boot; use an AL2023 image, or a share",
            )


def errors_of_pool(model: str, pool: str, name: str, store: NodeDiskStoreSpec, path: KeyPath) -> Iterator[SpecError]:
    """The error of a model that runs on `pool` and reads the store called `name`, given at `path`."""
    if pool != store.pool:
        yield SpecError(
            path,
            f"{name!r} is on the nodes of pool {store.pool!r}, and {model} runs on {pool!r}; name a store of that pool, or a share",
        )
