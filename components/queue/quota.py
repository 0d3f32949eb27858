"""What a queue hands out of each pool, resource by resource. Plain arithmetic, so that checks need no Kubernetes package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from components.handles import EFA_RESOURCE
from components.spec import bytes_of, cpu_quantity, in_largest_unit, millicores_of

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.queue.spec import PoolQuota, QueueSpec

HUGEPAGES, DISK = "hugepages-2Mi", "ephemeral-storage"
_IN_BYTES = ("memory", HUGEPAGES, DISK)
Amounts = dict[str, int]
"""By resource: cpu in millicores, memory, huge pages and disk in bytes, the rest in pieces."""


def amount_of(resource: str, quantity: str) -> int:
    """A Kubernetes quantity in the unit of `Amounts`."""
    if resource == "cpu":
        return millicores_of(quantity)
    return bytes_of(quantity) if resource in _IN_BYTES else int(quantity)


def quantity_of(resource: str, amount: int) -> str:
    """An amount as a Kubernetes quantity, in the largest unit that is exact."""
    if resource == "cpu":
        return cpu_quantity(amount)
    if resource not in _IN_BYTES:
        return str(amount)
    return in_largest_unit(amount, ("Gi", "Mi", "Ki"))


def whole(target: NodeTarget) -> Amounts:
    """Everything that the pool behind `target` holds at its largest."""
    capacity = target.capacity
    held = {
        "cpu": capacity.cpu_millicores,
        "memory": capacity.memory_bytes,
        HUGEPAGES: capacity.hugepages_2mi_bytes,
        DISK: capacity.ephemeral_storage_bytes,
        EFA_RESOURCE: capacity.efa,
    }
    if target.accelerator is not None:
        held[target.accelerator.resource] = capacity.accelerators
    return {resource: amount * target.nodes for resource, amount in held.items()}


def granted(quota: PoolQuota, target: NodeTarget) -> Amounts:
    """What `quota` hands out of the pool behind `target`: as written, else the whole, else in proportion to the cards."""
    held = whole(target)
    amounts = dict(held)
    if target.accelerator is not None and quota.accelerators is not None:
        cards = held[target.accelerator.resource]
        amounts = {resource: _share(amount, quota.accelerators, cards, resource) for resource, amount in held.items()}
        amounts[target.accelerator.resource] = quota.accelerators
    if quota.cpu is not None:
        amounts["cpu"] = millicores_of(quota.cpu)
    if quota.memory is not None:
        amounts["memory"] = bytes_of(quota.memory)
    if quota.pods is not None:
        amounts["pods"] = quota.pods
    return amounts


def _share(amount: int, cards: int, of: int, resource: str) -> int:
    """The share of `cards` of `of`, whole mebibytes where it is bytes: a quota of odd bytes is hard to read, and no page is cut."""
    share = amount * cards // max(1, of)
    return share // (2 * 2**20) * (2 * 2**20) if resource in _IN_BYTES else share


def covered(spec: QueueSpec, targets: Mapping[str, NodeTarget]) -> list[str]:
    """Every resource that the queue hands out, of any of its pools; what is missing here keeps a workload out for ever."""
    kinds = sorted({kind for name in spec.pools if (kind := _kind(targets[name])) is not None})
    some = [each for each in (HUGEPAGES, DISK, EFA_RESOURCE) if any(whole(targets[name])[each] for name in spec.pools)]
    pods = ["pods"] if any(quota.pods is not None for quota in spec.pools.values()) else []
    return ["cpu", "memory", *kinds, *some, *pods]


def _kind(target: NodeTarget) -> str | None:
    return None if target.accelerator is None else target.accelerator.resource
