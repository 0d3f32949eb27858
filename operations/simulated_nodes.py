"""How many nodes a stack's pools have when its models run, and the pretend ones that stand for those that are elsewhere.

A pool that grows with its load gets as many as an autoscaler would bring up for the models, never more than its most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from components.naming import bounded, content_key
from components.nodes.spec import accelerator_of, capacity_of, max_nodes
from components.platforms.aws.cluster_spec import EksCluster
from components.platforms.aws.pool_spec import EksPool
from components.storage.disk_spec import ClaimStoreSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from components.nodes.simulated import Place
    from stackfile.stack import StackSettings

# What a stack runs beside its models (the gateway, preheat Jobs, DNS) has room on two plain nodes.
_CPU_NODES = 2


def nodes_wanted(settings: StackSettings) -> dict[str, int]:
    """How many nodes each pool has once every model runs."""
    return {name: _wanted(name, settings) for name in settings.node_pools}


def packed(sizes: Iterable[int], room: int) -> int:
    """How many nodes of `room` cards hold replicas of these sizes, each on one node; the largest are placed first."""
    free: list[int] = []
    for size in sorted(sizes, reverse=True):
        place = next((index for index, left in enumerate(free) if left >= size), None)
        if place is None:
            free.append(room - size)
        else:
            free[place] -= size
    return len(free)


def pretended(settings: StackSettings) -> list[dict[str, Any]]:
    """Manifests of the nodes, runtime classes and claims that a rehearsal adds to what the stack declares."""
    from components.nodes.simulated import cpu_nodes, pretend_nodes, pretend_runtime_classes, runtime_classes_of

    pools = settings.node_pools
    wanted = nodes_wanted(settings)
    nodes: list[dict[str, Any]] = []
    for name, pool in pools.items():
        if isinstance(pool, EksPool):
            nodes += pretend_nodes(name, pool, count=wanted[name], place=_place(pool, settings))
        elif pool.provider == "existing":
            nodes += pretend_nodes(name, pool)
    if all(pool.accelerator is not None for pool in pools.values()):
        nodes += cpu_nodes(_CPU_NODES)
    # Pools of EC2 machines declare their runtime classes themselves.
    elsewhere = {name: pool for name, pool in pools.items() if pool.provider == "existing"}
    return [*nodes, *pretend_runtime_classes(runtime_classes_of(elsewhere)), *_claims(settings)]


def _claims(settings: StackSettings) -> list[dict[str, Any]]:
    """The claims that exist already where the stack really runs, each with a volume that holds nothing."""
    manifests: list[dict[str, Any]] = []
    for store in settings.storage.values():
        if isinstance(store, ClaimStoreSpec):
            size, modes = {"storage": store.capacity or "1Pi"}, ["ReadWriteMany"]
            volume = bounded(f"pretend-{settings.namespace}", content_key(settings.namespace, store.claim_name))
            inside = {"name": store.claim_name, "namespace": settings.namespace}
            spec = {
                "accessModes": modes,
                "storageClassName": "",
                "capacity": size,
                "hostPath": {"path": f"/pretend/{volume}"},
                "claimRef": inside,
            }
            asked = {"accessModes": modes, "storageClassName": "", "volumeName": volume, "resources": {"requests": size}}
            manifests += [
                {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec},
                {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": inside, "spec": asked},
            ]
    return manifests


def _wanted(name: str, settings: StackSettings) -> int:
    pool = settings.node_pools[name]
    if not isinstance(pool, EksPool):
        return max_nodes(pool)
    if accelerator_of(pool) is None:
        return min(pool.size.max, max(pool.size.min, _CPU_NODES))
    replicas = [model.cards for model in settings.models.values() if model.pool == name for _ in range(model.replicas * model.pods)]
    return min(pool.size.max, max(pool.size.min, packed(replicas, capacity_of(pool).accelerators)))


def _place(pool: EksPool, settings: StackSettings) -> Place:
    from components.nodes.simulated import Place

    cluster = settings.cluster
    region, known = (cluster.region, cluster.zones) if isinstance(cluster, EksCluster) else ("simulated", ())
    if pool.capacity_reservation is not None:
        return Place(region=region, zones=(pool.capacity_reservation.zone,))
    # An adopted cluster's zones are looked up only by the engine; two of them are what any cluster of EKS has.
    return Place(region=region, zones=tuple(pool.zones or known) or (f"{region}a", f"{region}b"))
