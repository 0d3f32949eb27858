"""Computes the quota of a queue for each pool and resource, without Kubernetes packages, so that
validation can use it.
"""

from collections.abc import Mapping

from inferplan.components.handles import NodeTarget
from inferplan.components.queue.spec import PoolQuota, QueueSpec
from inferplan.kube.names import EFA_RESOURCE, EPHEMERAL_STORAGE, HUGEPAGES
from inferplan.kube.quantity import bytes_of, cpu_quantity, in_largest_unit, millicores_of

_IN_BYTES = ("memory", HUGEPAGES, EPHEMERAL_STORAGE)
Amounts = dict[str, int]
"""By resource: CPU in millicores, memory, huge pages and disk in bytes, other resources in units.
"""


def amount_of(resource: str, quantity: str) -> int:
    if resource == "cpu":
        return millicores_of(quantity)
    return bytes_of(quantity) if resource in _IN_BYTES else int(quantity)


def quantity_of(resource: str, amount: int) -> str:
    """Return an amount as a Kubernetes quantity in the largest exact unit."""
    if resource == "cpu":
        return cpu_quantity(amount)
    if resource not in _IN_BYTES:
        return str(amount)
    return in_largest_unit(amount, ("Gi", "Mi", "Ki"))


def pool_amounts(target: NodeTarget) -> Amounts:
    """Return the resources of the pool of `target` at its maximum size."""
    capacity = target.capacity
    amounts = {
        "cpu": capacity.cpu_millicores,
        "memory": capacity.memory_bytes,
        HUGEPAGES: capacity.hugepages_2mi_bytes,
        EPHEMERAL_STORAGE: capacity.ephemeral_storage_bytes,
        EFA_RESOURCE: capacity.efa,
    }
    if target.accelerator is not None:
        amounts[target.accelerator.resource] = capacity.accelerators
    return {resource: amount * target.nodes for resource, amount in amounts.items()}


def quota_amounts(quota: PoolQuota, target: NodeTarget) -> Amounts:
    """Return the resources that `quota` grants of the pool of `target`: as set, otherwise in
    proportion to its accelerators, by default all.
    """
    total = pool_amounts(target)
    amounts = dict(total)
    if target.accelerator is not None and quota.accelerators is not None:
        accelerators = total[target.accelerator.resource]
        parts = {
            resource: amount * quota.accelerators // max(1, accelerators)
            for resource, amount in total.items()
        }
        # Bytes are rounded down to 2 MiB, which is readable and splits no huge page.
        amounts = {
            resource: part - part % (2 * 2**20) if resource in _IN_BYTES else part
            for resource, part in parts.items()
        }
        amounts[target.accelerator.resource] = quota.accelerators
    if quota.cpu is not None:
        amounts["cpu"] = millicores_of(quota.cpu)
    if quota.memory is not None:
        amounts["memory"] = bytes_of(quota.memory)
    if quota.pods is not None:
        amounts["pods"] = quota.pods
    return amounts


def covered_resources(spec: QueueSpec, targets: Mapping[str, NodeTarget]) -> list[str]:
    """Return the resources with a quota in any pool of the queue. Kueue never admits a workload
    that requests another resource.
    """
    kinds = sorted(
        {
            hardware.resource
            for name in spec.pools
            if (hardware := targets[name].accelerator) is not None
        }
    )
    optional = [
        each
        for each in (HUGEPAGES, EPHEMERAL_STORAGE, EFA_RESOURCE)
        if any(pool_amounts(targets[name])[each] for name in spec.pools)
    ]
    pods = ["pods"] if any(quota.pods is not None for quota in spec.pools.values()) else []
    return ["cpu", "memory", *kinds, *optional, *pods]
