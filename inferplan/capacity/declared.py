"""The inputs of a stack's resources before and after a change, from which capacity, cost and
rollouts are computed.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from inferplan.kube.facts import Subjects, read
from inferplan.kube.field_owners import SCALER_BOUNDS
from inferplan.kube.paths import mapping
from inferplan.kube.pod_sets import PodSet, pod_sets
from inferplan.kube.quantity import amount, number
from inferplan.pulumi_engine.reading.events import STACK_TYPE, kind_of

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_CLAIMS = {
    "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate": (
        "resourceClaimTemplateName",
        ("spec", "spec"),
    ),
    "kubernetes:resource.k8s.io/v1:ResourceClaim": ("resourceClaimName", ("spec",)),
}
_NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
_NODE_CLASS = "kubernetes:eks.amazonaws.com/v1:NodeClass"
_CAPACITY_TYPES = {"on-demand": "ON_DEMAND", "spot": "SPOT", "reserved": "CAPACITY_BLOCK"}
_GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One resource of one side. `counted` are its pods, if they were counted when its inputs were
    read.
    """

    type: str
    urn: str
    name: str
    inputs: dict[str, Any]
    counted: tuple[PodSet, ...] | None = None

    @property
    def kind(self) -> str:
        return kind_of(self.type)

    @cached_property
    def pods(self) -> tuple[PodSet, ...]:
        return (
            tuple(pod_sets(self.type, self.urn, self.name, self.inputs))
            if self.counted is None
            else self.counted
        )


def facts_in(resources: Iterable[Declared]) -> Subjects:
    """The facts of the stack among `resources`; none if it states none that can be read."""
    with suppress(ValueError):
        return next(
            (
                facts
                for each in resources
                if each.type == STACK_TYPE and (facts := read(each.inputs))
            ),
            {},
        )
    return {}


def with_templates(resources: Iterable[Declared]) -> Iterator[Declared]:
    """Resources with NodePools as node groups, completed by the instance type and disk of their
    launch template, by the pool's label.
    """
    everything = list(_with_node_pools(_with_ranges(with_claims(resources))))
    templates = {
        tag: each.inputs
        for each in everything
        if each.type == _LAUNCH_TEMPLATE
        for tag in _tags(each.inputs)
    }
    for each in everything:
        labels = [tag for tag in mapping(each.inputs, "labels").items() if isinstance(tag[1], str)]
        template = next((templates[tag] for tag in labels if tag in templates), None)
        if each.type != NODE_GROUP or template is None:
            yield each
            continue
        extra: dict[str, Any] = {}
        if not each.inputs.get("instanceTypes") and isinstance(template.get("instanceType"), str):
            extra["instanceTypes"] = [template["instanceType"]]
        disks = [mapping(disk, "ebs") for disk in _listed(template, "blockDeviceMappings")]
        sizes = [size for disk in disks if (size := amount(disk.get("volumeSize"))) is not None]
        if each.inputs.get("diskSize") is None and sizes:
            # Volumes of several kinds have no price.
            kinds = {_disk_kind(disk) for disk in disks}
            extra |= {"diskSize": sum(sizes, Decimal(0)), "diskType": "/".join(sorted(kinds))}
        yield replace(each, inputs=each.inputs | extra)


def _disk_kind(disk: dict[str, Any]) -> str:
    """The type of a volume, with the performance that is bought beyond what its size includes."""
    kind, parts = str(disk.get("volumeType") or "gp2"), []
    for field, included, unit in (("iops", 3_000, "IOPS"), ("throughput", 125, "MiB/s")):
        value = amount(disk.get(field))
        if value is not None and (kind != "gp3" or value > included):
            parts.append(f"{value} {unit}")
    return f"{kind} with {' and '.join(parts)}" if parts else kind


def with_claims(resources: Iterable[Declared]) -> Iterator[Declared]:
    """`resources`, with the devices that their pods claim. A pod with a claim that others share too
    counts as one share.
    """
    everything = list(resources)
    claimed = {
        (_CLAIMS[each.type][0], mapping(each.inputs, "metadata").get("name")): mapping(
            each.inputs, *_CLAIMS[each.type][1]
        )
        for each in everything
        if each.type in _CLAIMS
    }
    for each in everything:
        if not claimed or not any(pods.claims for pods in each.pods):
            yield each
            continue
        yield replace(each, counted=tuple(_with_devices(pods, claimed) for pods in each.pods))


def _with_devices(pods: PodSet, claimed: dict[tuple[str, Any], dict[str, Any]]) -> PodSet:
    requests = [
        mapping(request, "exactly")
        for key in pods.claims
        for request in _listed(mapping(claimed.get(key), "devices"), "requests")
    ]
    if not requests:
        return pods
    count = sum(number(each.get("count"), 1) for each in requests)
    resource = str(requests[0].get("deviceClassName") or "")
    return replace(pods, accelerators=count, resource=resource)


def _with_ranges(resources: Iterable[Declared]) -> Iterator[Declared]:
    """`resources`, the pods of each workload counted from the least to the most replicas that its
    scaler allows.
    """
    everything = list(resources)
    ranges = {}
    for each in everything:
        if (fields := SCALER_BOUNDS.get(each.type.rpartition(":")[2])) is not None:
            spec = mapping(each.inputs, "spec")
            target = mapping(spec, "scaleTargetRef")
            least, most = (number(spec.get(field), default) for field, default in fields)
            ranges[f"{target.get('kind') or 'Deployment'}/{target.get('name')}"] = least, most
    for each in everything:
        scaled = ranges and any(pods.owner in ranges for pods in each.pods)
        yield (
            replace(each, counted=tuple(pods.scaled(*ranges[pods.owner]) for pods in each.pods))
            if scaled
            else each
        )


def _tags(template: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for each in _listed(template, "tagSpecifications"):
        # Only tags that are also labels, which have a slash, name a pool.
        yield from (
            tag
            for tag in mapping(each, "tags").items()
            if "/" in tag[0] and isinstance(tag[1], str)
        )


def _listed(value: dict[str, Any], key: str) -> list[Any]:
    items = value.get(key)
    return items if isinstance(items, list) else []


def _with_node_pools(resources: Iterable[Declared]) -> Iterator[Declared]:
    """`resources`, with a node group for each capacity type of a pool of Auto Mode instead of its
    NodePools.

    A pool is a static NodePool, a dynamic one, or both, which share a NodeClass. Without a limit of
    nodes it has no known size, so its group names no instance type and gets no price.
    """
    classes: dict[str, Declared] = {}
    pools: dict[str, list[Declared]] = {}
    for each in resources:
        spec = mapping(each.inputs, "spec")
        if each.type == _NODE_CLASS:
            classes[mapping(each.inputs, "metadata").get("name") or each.name] = each
        elif each.type == _NODE_POOL and (
            name := mapping(spec, "template", "spec", "nodeClassRef").get("name")
        ):
            pools.setdefault(name, []).append(each)
            continue
        yield each
    for name, members in pools.items():
        yield from _groups(members, classes.get(name))


def _groups(members: list[Declared], node_class: Declared | None) -> Iterator[Declared]:
    specs = [mapping(each.inputs, "spec") for each in members]
    kept = sum(number(spec.get("replicas"), 0) for spec in specs)
    limits = [
        mapping(spec, "limits").get("nodes") for spec in specs if spec.get("replicas") is None
    ]
    added = sum(number(each, 0) for each in limits)
    ways = dict.fromkeys(
        way for spec in specs for way in _values(spec, "karpenter.sh/capacity-type")
    )
    disk = mapping(node_class.inputs, "spec", "ephemeralStorage") if node_class else {}
    size = amount(disk.get("size"))
    types = (
        []
        if None in limits
        else [name for spec in specs for name in _values(spec, "node.kubernetes.io/instance-type")]
    )
    inputs: dict[str, Any] = {
        "labels": mapping(specs[0], "template", "metadata", "labels"),
        "instanceTypes": list(dict.fromkeys(types)),
        "autoMode": True,
        **(
            {}
            if size is None
            else {"diskSize": size / _GIB, "diskType": _disk_kind({**disk, "volumeType": "gp3"})}
        ),
    }
    for index, way in enumerate(ways):
        sizes = {"minSize": kept if index == len(ways) - 1 else 0, "maxSize": kept + added}
        yield replace(
            members[0],
            type=NODE_GROUP,
            inputs={
                **inputs,
                "capacityType": _CAPACITY_TYPES.get(way, way),
                "scalingConfig": sizes,
            },
        )


def _values(spec: dict[str, Any], key: str) -> list[str]:
    requirements = _listed(mapping(spec, "template", "spec"), "requirements")
    requirement = next(
        (each for each in requirements if isinstance(each, dict) and each.get("key") == key), {}
    )
    return [each for each in _listed(requirement, "values") if isinstance(each, str)]
