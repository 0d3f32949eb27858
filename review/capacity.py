"""Accelerators and memory of each pool: what its nodes offer and what the workloads on it request.

Reads Node objects, node groups and pod templates. Pools that only a component describes are read by a
function of the caller, because this module does not know components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kube.paths import mapping
from kube.quantity import amount, number
from review.declared import NODE_GROUP, Declared, with_templates
from review.pods import NO_POOL, PodSet, accelerators_in, pool_of
from review.prices import Machine, price_list

NODE = "kubernetes:core/v1:Node"
_GIB = Decimal(2**30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Capacity of a pool's nodes at `nodes`, its maximum."""

    pool: str
    nodes: int
    resource: str
    accelerators: int
    memory_gib: Decimal
    group: bool = False
    """True for the nodes of a node group, which may share its pool with others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCapacity:
    """One pool on one side of a change."""

    pool: str
    nodes: int
    resource: str
    offered: int
    requested: int
    highest: int
    """The accelerators that the workloads request once scalers have raised all of them to their maximum."""
    memory_offered_gib: Decimal
    memory_requested_gib: Decimal
    memory_highest_gib: Decimal
    """The memory that the workloads request at the maximum of their scalers."""

    @property
    def memory_demand(self) -> str:
        """The requested memory in GiB, as a range if scalers change it."""
        least, most = (f"{each:.0f}" for each in (self.memory_requested_gib, self.memory_highest_gib))
        return least if least == most else f"{least} to {most}"

    @property
    def demand(self) -> str:
        """The requested accelerators, as a range if scalers change them."""
        return f"{self.requested}" if self.requested == self.highest else f"{self.requested} to {self.highest}"


OfferReader = Callable[[Declared], Offer | None]


def pools(resources: Iterable[Declared], read_offer: OfferReader | None = None) -> dict[str, PoolCapacity]:
    """Every pool among `resources`, by name. `read_offer` reads the pools that only a component describes."""
    offers: dict[str, list[Offer]] = {}
    requests: dict[str, list[PodSet]] = {}
    for each in with_templates(resources):
        offer = _offer(each) or (read_offer(each) if read_offer else None)
        if offer is not None:
            offers.setdefault(offer.pool, []).append(offer)
        for pods in each.pods:
            requests.setdefault(pods.pool, []).append(pods)
    # Pods without accelerators and without a pool run anywhere, so they form no pool.
    names = [
        *offers,
        *(pool for pool, sets in requests.items() if pool not in offers and (pool != NO_POOL or any(each.accelerators for each in sets))),
    ]
    return {name: _capacity(name, offers.get(name, []), requests.get(name, [])) for name in sorted(names)}


def _capacity(pool: str, offers: list[Offer], sets: list[PodSet]) -> PoolCapacity:
    groups = [each for each in offers if each.group]
    # Groups of one pool are several ways of buying the same nodes: it grows to the largest of them, not to their sum.
    offers = [each for each in offers if not each.group] + sorted(groups, key=lambda each: (each.accelerators, each.nodes))[-1:]
    resources = [each.resource for each in offers if each.resource] + [each.resource for each in sets if each.resource]
    return PoolCapacity(
        pool=pool,
        nodes=sum(each.nodes for each in offers),
        resource=resources[0] if resources else "",
        offered=sum(each.accelerators for each in offers),
        requested=sum(each.accelerators * each.replicas for each in sets),
        highest=sum(each.accelerators * each.highest for each in sets),
        memory_offered_gib=sum((each.memory_gib for each in offers), Decimal(0)),
        memory_requested_gib=sum((each.memory_gib * each.replicas for each in sets), Decimal(0)),
        memory_highest_gib=sum((each.memory_gib * each.highest for each in sets), Decimal(0)),
    )


def _offer(resource: Declared) -> Offer | None:
    if resource.type == NODE:
        offered = mapping(resource.inputs, "status", "allocatable") or mapping(resource.inputs, "status", "capacity")
        pool = pool_of(mapping(resource.inputs, "metadata", "labels"))
        if not offered or pool == NO_POOL:
            return None
        name, count = accelerators_in(offered)
        return Offer(pool=pool, nodes=1, resource=name, accelerators=count, memory_gib=(amount(offered.get("memory")) or Decimal(0)) / _GIB)
    if resource.type == NODE_GROUP:
        machine = price_list().machines.get(machine_of(resource.inputs))
        labels = mapping(resource.inputs, "labels")
        pool = pool_of(labels) if pool_of(labels) != NO_POOL else resource.name
        nodes = sizes_of(resource.inputs)[2]
        if machine is None:
            return Offer(pool=pool, nodes=nodes, resource="", accelerators=0, memory_gib=Decimal(0), group=True)
        return Offer(
            pool=pool,
            nodes=nodes,
            resource=machine.resource,
            accelerators=machine.accelerators * nodes,
            memory_gib=machine.memory_gib * nodes,
            group=True,
        )
    return None


def machine_of(inputs: dict[str, Any]) -> str:
    """The first instance type of a node group's inputs, "" where they name none."""
    return next(iter(machines_of(inputs)), "")


def machines_of(inputs: dict[str, Any]) -> list[str]:
    """All instance types of a node group's inputs, in its order of preference."""
    types = inputs.get("instanceTypes")
    return [each for each in types if isinstance(each, str)] if isinstance(types, list) else []


def sizes_of(inputs: dict[str, Any]) -> tuple[int, int, int]:
    """Least, wanted and most nodes of a node group."""
    scaling = mapping(inputs, "scalingConfig")
    least = number(scaling.get("minSize"), 0)
    most = number(scaling.get("maxSize"), least)
    return least, min(max(number(scaling.get("desiredSize"), least), least), most), most


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Node groups of one pool. `least` nodes hold its declared pods, and `needed` are those or the desired nodes, at most `most`."""

    name: str
    groups: tuple[Declared, ...]
    least: int
    needed: int
    most: int


def pools_of(resources: Sequence[Declared]) -> Iterator[Pool]:
    """The pools among `resources` that node groups make up, in the order of their first groups."""
    groups: dict[str, list[Declared]] = {}
    for each in resources:
        if each.type == NODE_GROUP:
            pool = pool_of(mapping(each.inputs, "labels"))
            groups.setdefault(each.urn if pool == NO_POOL else pool, []).append(each)
    if not groups:
        return
    sets: dict[str, list[PodSet]] = {}
    for each in resources:
        for pods in each.pods:
            sets.setdefault(pods.pool, []).append(pods)
    for name, members in groups.items():
        sizes = [sizes_of(each.inputs) for each in members]
        most = max(most for _, _, most in sizes)
        least = min(sum(least for least, _, _ in sizes), most)
        desired = min(sum(desired for _, desired, _ in sizes), most)
        machine = price_list().machines.get(next(iter(machines_of(members[0].inputs)), ""))
        # Declared pods are those at the minimum of their scalers, so their nodes always run.
        least = min(max(least, _nodes_for(sets.get(name, ()), machine, most)), most)
        yield Pool(name=name, groups=tuple(members), least=least, needed=max(desired, least), most=most)


def _nodes_for(sets: Iterable[PodSet], machine: Machine | None, most: int) -> int:
    """Nodes of `machine` that `sets` fill by accelerators and memory, the largest pods first; `most` where more are needed."""
    if machine is None or not machine.accelerators:
        return 0
    pods = sorted(((each.accelerators, float(each.memory_gib), each.replicas) for each in sets if each.accelerators), reverse=True)
    full, room = 0, []
    for accelerators, memory, replicas in pods:
        for _ in range(max(replicas, 0)):
            node = next((each for each in room if each[0] >= accelerators and each[1] >= memory), None)
            if node is None:
                if full + len(room) >= most:
                    return most
                node = [float(machine.accelerators), float(machine.memory_gib)]
                room.append(node)
            node[0] -= accelerators
            node[1] -= memory
            if node[0] <= 0:
                room.remove(node)
                full += 1
    return full + len(room)
