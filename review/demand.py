"""Nodes that a pool needs for its declared pods, and its maximum.

Nodes and pods of a pool share a label. Node groups with the same label are one pool with several capacity types: it grows to the
largest of them, because they serve the same pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kube.paths import mapping
from review.capacity import machines_of, sizes_of
from review.declared import NODE_GROUP, Declared
from review.pods import NO_POOL, PodSet, pool_of
from review.prices import Machine, price_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Node groups of one pool. `needed` are the nodes for its declared pods, between `least` and `most`."""

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
        wanted = min(sum(wanted for _, wanted, _ in sizes), most)
        machine = price_list().machines.get(next(iter(machines_of(members[0].inputs)), ""))
        needed = _nodes_for(sets.get(name, ()), machine, most)
        yield Pool(name=name, groups=tuple(members), least=least, needed=min(max(wanted, needed), most), most=most)


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
