"""Fake nodes: Node objects for kwok, shaped like the machines of a pool. It only builds manifests;
kwok sets conditions and addresses.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from inferplan.components.naming import MAX_NAME, bounded, content_key
from inferplan.components.nodes.pool import NodeLocation, Pool
from inferplan.components.pools import SimulatedPool
from inferplan.hardware.accelerators import Accelerator, lookup
from inferplan.hardware.machines import Capacity
from inferplan.kube.names import (
    EFA_RESOURCE,
    EPHEMERAL_STORAGE,
    FAKE_NODE,
    HOSTNAME_LABEL,
    HUGEPAGES,
    MIG_PREFIX,
    POOL_LABEL,
    REGION_LABEL,
    ZONE_LABEL,
)
from inferplan.kube.quantity import cpu_quantity, size_quantity

_DIGITS = 5


def fake_nodes(
    name: str, pool: Pool, *, count: int | None = None, location: NodeLocation | None = None
) -> list[dict[str, Any]]:
    """Return `count` Node objects of `pool` at `location` as manifests, by default its maximum at
    its own location.
    """
    target = pool.target(name)
    capacity, allocatable = _resources(pool.nominal_capacity, pool), _resources(pool.capacity, pool)
    taints = [
        {"key": each.key, **({"value": each.value} if each.value else {}), "effect": each.effect}
        for each in target.taints
    ]
    labels = _machine_labels(pool)
    where = pool.location(NodeLocation()) if location is None else location
    nodes = []
    for index in range(pool.max_nodes if count is None else count):
        node = node_name(name, index)
        own = {HOSTNAME_LABEL: node}
        if where.zones:
            own |= {REGION_LABEL: where.region, ZONE_LABEL: where.zones[index % len(where.zones)]}
        # The selector of the pool comes last: pods must find these nodes, whatever the table says
        # about them.
        all_labels = dict(sorted((labels | own | dict(target.node_selector)).items()))
        nodes.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": node,
                    "annotations": {FAKE_NODE: "fake"},
                    "labels": all_labels,
                },
                "spec": {"taints": [dict(each) for each in taints]} if taints else {},
                "status": {"capacity": dict(capacity), "allocatable": dict(allocatable)},
            }
        )
    return nodes


def cpu_nodes(count: int) -> list[dict[str, Any]]:
    """Return `count` CPU nodes outside any pool, for stacks without such a pool: the gateway has to
    run somewhere.
    """
    if count < 1:
        return []
    nodes = fake_nodes(
        "rehearsal-cpu", SimulatedPool.model_validate({"provider": "simulated", "nodes": count})
    )
    for node in nodes:
        del node["metadata"]["labels"][POOL_LABEL]
    return nodes


def runtime_classes_of(pools: Mapping[str, Pool]) -> tuple[str, ...]:
    """Return the RuntimeClasses that pods of `pools` name, each once, sorted."""
    names = {pool.target(name).runtime_class for name, pool in pools.items()}
    return tuple(sorted(each for each in names if each is not None))


def fake_runtime_classes(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the RuntimeClass objects called `names`, as manifests; the API server rejects pods
    that name a missing one.
    """
    return [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": name,
        }
        for name in sorted(set(names))
    ]


def node_name(pool: str, index: int) -> str:
    """Return the name of node `index` of `pool`: at most 63 characters, because it is also the
    value of a label.
    """
    if len(pool) + 1 + _DIGITS <= MAX_NAME:
        return f"{pool}-{index}"
    return f"{bounded(pool, content_key(pool), MAX_NAME - 1 - _DIGITS)}-{index}"


def _machine_labels(pool: Pool) -> dict[str, str]:
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    if isinstance(pool.node_type, str):
        labels["node.kubernetes.io/instance-type"] = pool.node_type
    labels |= pool.extra_labels
    hardware, count = pool.hardware, pool.capacity.accelerators
    if hardware is None:
        return labels
    if hardware.sharers > 1:
        whole = _discovered(lookup(hardware.name), count // hardware.sharers)
        if hardware.resource == lookup(hardware.name).resource and hardware.product:
            whole["nvidia.com/gpu.product"] += "-SHARED"
        # A DRA driver adds no labels.
        return labels | whole | ({} if hardware.device_class else pool.sharing_labels)
    if pool.mig_profile is None:
        return labels | _discovered(hardware, count)
    # Discovery labels describe whole accelerators, and also their slices (strategy mixed).
    whole = lookup(hardware.name)
    slices = {
        "nvidia.com/mig.strategy": "mixed",
        f"{MIG_PREFIX}{pool.mig_profile}.count": str(count),
    }
    return labels | _discovered(whole, count // whole.slices(pool.mig_profile)) | slices


def _discovered(accelerator: Accelerator, count: int) -> dict[str, str]:
    """Return the labels that node and GPU feature discovery add to a node with `count` of
    `accelerator`.
    """
    labels = dict(accelerator.labels)
    if accelerator.compute is None:
        return labels
    major, minor = accelerator.compute.split(".")
    return labels | {
        "nvidia.com/gpu.product": accelerator.product or "",
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.memory": str(accelerator.memory_bytes // 2**20),
        "nvidia.com/gpu.family": accelerator.family or "",
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/mig.capable": "true" if accelerator.mig else "false",
    }


def _resources(capacity: Capacity, pool: Pool) -> dict[str, str]:
    resources = {
        "cpu": cpu_quantity(capacity.cpu_millicores),
        EPHEMERAL_STORAGE: size_quantity(capacity.ephemeral_storage_bytes),
        "memory": size_quantity(capacity.memory_bytes),
        "pods": str(pool.max_pods),
    }
    if capacity.hugepages_2mi_bytes:
        resources[HUGEPAGES] = size_quantity(capacity.hugepages_2mi_bytes)
    if capacity.efa:
        resources[EFA_RESOURCE] = str(capacity.efa)
    if pool.hardware is not None and pool.hardware.device_class is None:
        resources[pool.hardware.resource] = str(capacity.accelerators)
    return dict(sorted(resources.items()))
