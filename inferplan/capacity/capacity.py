"""Accelerators and memory of each pool: what its nodes offer and what the workloads on it request."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from inferplan.capacity.declared import NODE_GROUP, Declared, facts_in, with_templates
from inferplan.hardware.prices import Machine, price_list
from inferplan.kube.paths import mapping
from inferplan.kube.pod_sets import NO_POOL, PodSet, accelerators_in, pool_of
from inferplan.kube.quantity import amount, number

NODE = "kubernetes:core/v1:Node"
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Capacity of a pool's nodes at `nodes`, its maximum. A node group may share its pool with
    others.
    """

    pool: str
    nodes: int
    resource: str = ""
    accelerators: int = 0
    memory_gib: Decimal = _ZERO
    group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCapacity:
    """One pool on one side of a change. The highest requests are those once scalers have raised all
    workloads to their maximum.
    """

    pool: str
    nodes: int
    resource: str
    offered: int
    requested: int
    highest: int
    memory_offered_gib: Decimal
    memory_requested_gib: Decimal
    memory_highest_gib: Decimal
    node_memory_gib: Decimal = _ZERO
    """Memory of the largest node, 0 if it is not known."""
    pod_memory_gib: Decimal = _ZERO
    """Memory of the largest pod."""

    @property
    def shortage(self) -> str:
        """The resource of which more is requested than offered, with both figures; "" if there is
        none.
        """
        if self.highest > self.offered:
            return f"{self.demand} {self.resource} requested, {self.offered} offered"
        if 0 < self.node_memory_gib < self.pod_memory_gib:
            return (
                f"{self.pod_memory_gib:.0f} GiB of memory requested by one pod,"
                f" {self.node_memory_gib:.0f} on the largest node"
            )
        if 0 < self.memory_offered_gib < self.memory_highest_gib:
            return (
                f"{self.memory_demand} GiB of memory requested, {self.memory_offered_gib:.0f}"
                " offered"
            )
        return ""

    @property
    def memory_demand(self) -> str:
        least, most = (
            f"{each:.0f}" for each in (self.memory_requested_gib, self.memory_highest_gib)
        )
        return least if least == most else f"{least} to {most}"

    @property
    def demand(self) -> str:
        return (
            f"{self.requested}"
            if self.requested == self.highest
            else f"{self.requested} to {self.highest}"
        )


def pools(resources: Iterable[Declared]) -> dict[str, PoolCapacity]:
    """Every pool among `resources`, by name."""
    everything = list(with_templates(resources))
    offers: dict[str, list[Offer]] = {}
    stated = {name: facts for (kind, name), facts in facts_in(everything).items() if kind == "pool"}
    adopted = (_stated_offer(name, each) for name, each in stated.items() if each.get("adopted"))
    for offer in (*map(_offer, everything), *adopted):
        if offer is not None:
            offers.setdefault(offer.pool, []).append(_with_stated(offer, stated))
    sets = _by_pool(everything)
    if not any(each.accelerators for each in sets.get(NO_POOL, ())) and NO_POOL not in offers:
        # Pods without accelerators and without a pool run anywhere, so they form no pool.
        sets.pop(NO_POOL, None)
    return {
        name: _capacity(name, offers.get(name, []), sets.get(name, []))
        for name in sorted({*offers, *sets})
    }


def _by_pool(resources: Iterable[Declared]) -> dict[str, list[PodSet]]:
    sets: dict[str, list[PodSet]] = {}
    for each in resources:
        for pods in each.pods:
            sets.setdefault(pods.pool, []).append(pods)
    return sets


def _capacity(pool: str, offers: list[Offer], sets: list[PodSet]) -> PoolCapacity:
    groups = [each for each in offers if each.group]
    # Groups of one pool are several ways of buying the same nodes: it grows to the largest of them,
    # not to their sum.
    offers = [each for each in offers if not each.group] + sorted(
        groups, key=lambda each: (each.accelerators, each.nodes)
    )[-1:]
    return PoolCapacity(
        pool=pool,
        nodes=sum(each.nodes for each in offers),
        resource=next((each.resource for each in (*offers, *sets) if each.resource), ""),
        offered=sum(each.accelerators for each in offers),
        requested=sum(each.accelerators * each.replicas for each in sets),
        highest=sum(each.accelerators * each.highest for each in sets),
        memory_offered_gib=sum((each.memory_gib for each in offers), _ZERO),
        memory_requested_gib=sum((each.memory_gib * each.replicas for each in sets), _ZERO),
        memory_highest_gib=sum((each.memory_gib * each.highest for each in sets), _ZERO),
        node_memory_gib=max(
            (each.memory_gib / each.nodes for each in offers if each.nodes), default=_ZERO
        ),
        pod_memory_gib=max((each.memory_gib for each in sets), default=_ZERO),
    )


def _with_stated(offer: Offer, stated: Mapping[str, dict[str, Any]]) -> Offer:
    """`offer` with the accelerators that the stack states: a node lists no devices of DRA drivers."""
    if offer.accelerators or offer.pool not in stated:
        return offer
    devices = _stated_offer(offer.pool, stated[offer.pool], offer.nodes)
    return replace(offer, resource=devices.resource, accelerators=devices.accelerators)


def _stated_offer(pool: str, facts: dict[str, Any], nodes: int | None = None) -> Offer:
    """The devices and memory of `nodes` nodes of a pool, by default all, by the facts of the stack."""
    nodes = number(facts.get("maxNodes"), 0) if nodes is None else nodes
    memory = (amount(facts.get("memoryBytes")) or _ZERO) * nodes / 2**30
    accelerators = number(facts.get("accelerators"), 0) * nodes
    return Offer(
        pool=pool,
        nodes=nodes,
        resource=str(facts.get("resource") or ""),
        accelerators=accelerators,
        memory_gib=memory,
    )


def _offer(resource: Declared) -> Offer | None:
    if resource.type == NODE:
        offered = mapping(resource.inputs, "status", "allocatable") or mapping(
            resource.inputs, "status", "capacity"
        )
        pool = pool_of(mapping(resource.inputs, "metadata", "labels"))
        if not offered or pool == NO_POOL:
            return None
        name, count = accelerators_in(offered)
        return Offer(
            pool=pool,
            nodes=1,
            resource=name,
            accelerators=count,
            memory_gib=(amount(offered.get("memory")) or _ZERO) / 2**30,
        )
    if resource.type != NODE_GROUP:
        return None
    pool = pool_of(mapping(resource.inputs, "labels"))
    pool = resource.name if pool == NO_POOL else pool
    nodes = _sizes(resource.inputs)[2]
    if (machine := _machine(resource)) is None:
        return Offer(pool=pool, nodes=nodes, group=True)
    accelerators, memory = machine.accelerators * nodes, machine.memory_gib * nodes
    return Offer(
        pool=pool,
        nodes=nodes,
        resource=machine.resource,
        accelerators=accelerators,
        memory_gib=memory,
        group=True,
    )


def _machine(group: Declared) -> Machine | None:
    """The machine of the first instance type of a node group, None where it names none or an
    unknown one.
    """
    return price_list().machines.get(next(iter(machines_of(group.inputs)), ""))


def machines_of(inputs: dict[str, Any]) -> list[str]:
    """All instance types of a node group's inputs, in its order of preference."""
    types = inputs.get("instanceTypes")
    return [each for each in types if isinstance(each, str)] if isinstance(types, list) else []


def _sizes(inputs: dict[str, Any]) -> tuple[int, int, int]:
    """Least, wanted and most nodes of a node group."""
    scaling = mapping(inputs, "scalingConfig")
    least = number(scaling.get("minSize"), 0)
    most = number(scaling.get("maxSize"), least)
    return least, min(max(number(scaling.get("desiredSize"), least), least), most), most


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Node groups of one pool. `least` nodes hold its declared pods, and `needed` are those or the
    desired nodes, at most `most`.
    """

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
    sets = _by_pool(resources) if groups else {}
    for name, members in groups.items():
        minima, wanted, maxima = zip(*(_sizes(each.inputs) for each in members), strict=True)
        most = max(maxima)
        # Declared pods are those at the minimum of their scalers, so their nodes always run.
        least = min(
            max(sum(minima), _nodes_for(sets.get(name, ()), _machine(members[0]), most)), most
        )
        yield Pool(
            name=name,
            groups=tuple(members),
            least=least,
            needed=max(min(sum(wanted), most), least),
            most=most,
        )


def _nodes_for(sets: Iterable[PodSet], machine: Machine | None, most: int) -> int:
    """Nodes of `machine` that `sets` fill by accelerators and memory, the largest pods first;
    `most` where more are needed.
    """
    if machine is None or not machine.accelerators:
        return 0
    pods = sorted(
        (
            (each.accelerators, float(each.memory_gib), each.replicas)
            for each in sets
            if each.accelerators
        ),
        reverse=True,
    )
    full, room = 0, []
    for accelerators, memory, replicas in pods:
        for _ in range(max(replicas, 0)):
            node = next(
                (each for each in room if each[0] >= accelerators and each[1] >= memory), None
            )
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
