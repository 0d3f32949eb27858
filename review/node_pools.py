"""The NodePools of EKS Auto Mode as the node groups that they are to capacity and cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kube.paths import mapping
from kube.quantity import amount, number

if TYPE_CHECKING:
    from review.declared import Declared

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
_NODE_CLASS = "kubernetes:eks.amazonaws.com/v1:NodeClass"
_WAYS = {"on-demand": "ON_DEMAND", "spot": "SPOT", "reserved": "CAPACITY_BLOCK"}
_GIB = 2**30


def with_node_pools(resources: Iterable[Declared]) -> Iterator[Declared]:
    """`resources`, with a node group for each capacity type of a pool of Auto Mode instead of its NodePools.

    A pool is a static NodePool, a dynamic one, or both, which share a NodeClass. Without a limit of nodes it has no known size, so its group
    names no instance type and gets no price.
    """
    classes: dict[str, Declared] = {}
    pools: dict[str, list[Declared]] = {}
    for each in resources:
        spec = mapping(each.inputs, "spec")
        if each.type == _NODE_CLASS:
            classes[mapping(each.inputs, "metadata").get("name") or each.name] = each
        elif each.type == _NODE_POOL and (name := mapping(spec, "template", "spec", "nodeClassRef").get("name")):
            pools.setdefault(name, []).append(each)
            continue
        yield each
    for name, members in pools.items():
        yield from _groups(members, classes.get(name))


def _groups(members: list[Declared], node_class: Declared | None) -> Iterator[Declared]:
    specs = [mapping(each.inputs, "spec") for each in members]
    kept = sum(number(spec.get("replicas"), 0) for spec in specs)
    limits = [mapping(spec, "limits").get("nodes") for spec in specs if spec.get("replicas") is None]
    added = sum(number(each, 0) for each in limits)
    ways = dict.fromkeys(way for spec in specs for way in _values(spec, "karpenter.sh/capacity-type"))
    size = amount(mapping(node_class.inputs, "spec", "ephemeralStorage").get("size")) if node_class is not None else None
    types = [] if None in limits else [name for spec in specs for name in _values(spec, "node.kubernetes.io/instance-type")]
    inputs: dict[str, Any] = {
        "labels": mapping(specs[0], "template", "metadata", "labels"),
        "instanceTypes": list(dict.fromkeys(types)),
        "autoMode": True,
        **({} if size is None else {"diskSize": size / _GIB, "diskType": "gp3"}),
    }
    for index, way in enumerate(ways):
        sizes = {"minSize": kept if index == len(ways) - 1 else 0, "maxSize": kept + added}
        yield replace(members[0], type=NODE_GROUP, inputs={**inputs, "capacityType": _WAYS.get(way, way), "scalingConfig": sizes})


def _values(spec: dict[str, Any], key: str) -> list[str]:
    listed = mapping(spec, "template", "spec").get("requirements")
    requirements = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    values = next((each.get("values") for each in requirements if each.get("key") == key), None)
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []
