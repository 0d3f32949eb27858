"""Labels, selectors, taints, nodes, claims of devices and queues of a stack: where its pods can
run.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from inferplan.hardware.machines import ec2_devices
from inferplan.kube.names import QUEUE_LABEL, RESOURCE_VENDORS, vendor_of
from inferplan.kube.selectors import meets
from inferplan.kube.taints import tolerates_taint
from inferplan.policies.engine.fields import Field, FieldError, UnseenFieldError, matching
from inferplan.policies.engine.resource import Resource, Stack, namespaces, object_names
from inferplan.policies.subjects.pods import PodTemplate

_EKS_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}

# Labels that the kubelet, the cloud and feature discovery add to a running node.
_ADDED_LABELS = re.compile(
    r"([a-z.-]+\.)?(kubernetes\.io|k8s\.io|k8s\.aws|eks\.amazonaws\.com|nvidia\.com|intel\.com|amd\.com|karpenter\.sh)/"
)
UNLIMITED = dict.fromkeys(RESOURCE_VENDORS.values(), math.inf)
# Taints that Kubernetes and the cloud's controller add while a node starts, fails or drains.
# https://kubernetes.io/docs/reference/labels-annotations-taints/, read 2026-11.
_LIFECYCLE_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_LOCAL = "kubernetes:kueue.x-k8s.io:LocalQueue"
_CLUSTER = "kubernetes:kueue.x-k8s.io:ClusterQueue"
_RESOURCES = "kubernetes:resource.k8s.io"
_CLAIMS = {
    "resourceClaimName": (f"{_RESOURCES}:ResourceClaim", ("spec",)),
    "resourceClaimTemplateName": (f"{_RESOURCES}:ResourceClaimTemplate", ("spec", "spec")),
}
# Device classes of the vendors' drivers.
_DEVICE_CLASSES = {
    "gpu.nvidia.com": "nvidia",
    "mig.nvidia.com": "nvidia",
    "gaudi.intel.com": "habana",
    "gpu.amd.com": "amd",
    "neuron.aws.com": "aws",
    "neuron.amazonaws.com": "aws",
    "tpu.google.com": "google",
}


class Node(NamedTuple):
    """One declared node with its accelerators by vendor. Unknown labels are None and match any pod."""

    labels: dict[str, str] | None
    taints: tuple[Field, ...]
    accelerators: dict[str, float]


def labels_at(field: Field) -> dict[str, str]:
    return {key: each.text() for key, each in field.entries()}


def matches_labels(selector: Field, labels: dict[str, str]) -> bool:
    """True if a label selector (matchLabels, matchExpressions) matches `labels`. Raises FieldError."""
    if not selector.unknown and selector.value in (None, {}):
        return True  # a namespace may have thousands of pods, and selectors of all of them
    if any(labels.get(key) != each.text() for key, each in selector.at("matchLabels").entries()):
        return False
    return all(
        meets(
            labels,
            each.at("operator").text(),
            each.at("key").text(),
            each.at("values").texts(),
        )
        for each in selector.at("matchExpressions").each()
    )


def nodes_of(stack: Stack) -> Iterator[Node]:
    """The nodes that the stack declares, at the maximum size of their groups. What cannot be read
    counts as suitable.
    """
    for each in stack.of("kubernetes:core:Node"):
        labels, taints, accelerators = None, (), UNLIMITED
        with stack.unreadable:
            labels = labels_at(each.at("metadata", "labels"))
            taints = tuple(
                taint
                for taint in each.at("spec", "taints").each()
                if not taint.at("key").text().startswith(_LIFECYCLE_TAINTS)
            )
        with stack.unreadable:
            accelerators = _allocatable(each)
        yield Node(labels, taints, accelerators)
    for group in stack.of("aws:eks:NodeGroup"):
        labels, taints, accelerators, size = None, (), UNLIMITED, None
        with stack.unreadable:
            labels, taints = (
                labels_at(group.at("labels")),
                tuple(map(_taint, group.at("taints").each())),
            )
        with stack.unreadable:
            accelerators = eks_accelerators(stack, group)
        with stack.unreadable:
            size = group.at("scalingConfig", "maxSize").number() or 0
        yield from _copies(Node(labels, taints, accelerators), size)
    for pool in stack.of("kubernetes:karpenter.sh:NodePool"):
        yield from _karpenter_nodes(stack, pool)


def _karpenter_nodes(stack: Stack, pool: Resource) -> list[Node]:
    labels, taints, accelerators, size = None, (), UNLIMITED, None
    template = pool.at("spec", "template")
    with stack.unreadable:
        requirements = {
            each.at("key").text(): each for each in template.at("spec", "requirements").each()
        }
        # Karpenter labels each node with a value of every requirement, of which only our own and
        # people's keys matter.
        if all(_ADDED_LABELS.match(key) for key in requirements):
            labels = labels_at(template.at("metadata", "labels"))
        taints = tuple(template.at("spec", "taints").each())
        types = requirements.get(_INSTANCE_TYPE)
        if types is not None and types.at("operator").text() == "In":
            accelerators = _accelerators_of_types(types.at("values").texts())
    with stack.unreadable:
        size = pool.at("spec", "replicas").number() or pool.at("spec", "limits", "nodes").quantity()
    return _copies(Node(labels, taints, accelerators), size)


def _copies(node: Node, size: float | None) -> list[Node]:
    return (
        [node] * int(size)
        if size is not None
        else [node._replace(accelerators=dict.fromkeys(node.accelerators, math.inf))]
    )


def _allocatable(node: Resource) -> dict[str, float]:
    accelerators: dict[str, float] = {}
    for name, field in node.at("status", "allocatable").entries():
        if vendor_of(name):
            accelerators[vendor_of(name)] = accelerators.get(vendor_of(name), 0) + (
                field.quantity() or 0
            )
    return accelerators


def _taint(taint: Field) -> Field:
    effect = _EKS_EFFECTS.get(taint.at("effect").text(), "")
    return Field(
        {"key": taint.at("key").text(), "value": taint.at("value").text(), "effect": effect}
    )


def eks_accelerators(stack: Stack, group: Resource) -> dict[str, float]:
    # A node group for a capacity block has its instance type in the launch template.
    name = group.at("launchTemplate", "name")
    templates = [
        each
        for each in stack.of("aws:ec2:LaunchTemplate")
        if each.urn in group.dependencies
        or (not name.unknown and name.text() and each.at("name").text() == name.text())
    ]
    types = group.at("instanceTypes").texts() or [
        each.at("instanceType").text() for each in templates if each.at("instanceType").text()
    ]
    return _accelerators_of_types(types, nvidia="NVIDIA" in group.at("amiType").text())


def _accelerators_of_types(types: Sequence[str], *, nvidia: bool = False) -> dict[str, float]:
    """The accelerators of a node that has one of `types`, by vendor. A type that no table lists may
    have any number of them.
    """
    devices = [ec2_devices().get(each) for each in types]
    if nvidia and (not devices or None in devices):
        return {"nvidia": math.inf}
    if None in devices:
        return dict(UNLIMITED)
    counts: dict[str, float] = {}
    for resource, count in filter(None, devices):
        if vendor := vendor_of(resource):
            counts[vendor] = min(counts.get(vendor, math.inf), count)
    return counts


class NodeGroups(list[tuple[Node, int]]):
    """Nodes that no pod of a stack can distinguish: one of each group, and the group's size."""

    @cached_property
    def _places(self) -> dict[tuple[str, str], list[int]]:
        """The places of the groups by each of their labels."""
        places: dict[tuple[str, str], list[int]] = {}
        for place, (node, _) in enumerate(self):
            for label in (node.labels or {}).items():
                places.setdefault(label, []).append(place)
        return places

    @cached_property
    def _open(self) -> list[int]:
        """The places of the groups whose labels are unknown."""
        return [place for place, (node, _) in enumerate(self) if node.labels is None]

    def fitting(self, pod: PodTemplate, vendor: str = "") -> Iterator[int]:
        """The places of the groups that `pod` fits on, with accelerators of `vendor`. Raises
        FieldError.
        """
        near: Iterable[int] = range(len(self))
        with suppress(FieldError):
            for label in pod.node_selector.items():
                if not _ADDED_LABELS.match(label[0]):
                    near = sorted([*self._places.get(label, ()), *self._open])
                    break
        for place in near:
            node = self[place][0]
            if (not vendor or node.accelerators.get(vendor)) and fits_on(pod, node):
                yield place


def groups_of(nodes: Iterable[Node], pods: Iterable[PodTemplate]) -> NodeGroups:
    """One node for each group that no pod of `pods` can distinguish, and its size: a fleet has
    thousands of nodes and a few pools.
    """
    selected: set[str] = set()
    for pod in pods:
        with suppress(FieldError):
            selected |= pod.node_selector.keys()
    ordered = sorted(selected)
    groups: dict[str, tuple[Node, int]] = {}
    for node in nodes:
        labels = node.labels and {key: node.labels.get(key) for key in ordered}
        key = repr((labels, [each.value for each in node.taints], node.accelerators))
        first, size = groups.get(key, (node, 0))
        groups[key] = (first, size + 1)
    return NodeGroups(groups.values())


def fits_on(pod: PodTemplate, node: Node) -> bool:
    """True if a pod's nodeSelector and tolerations match `node`, ignoring labels that a running
    node gets. Raises FieldError.
    """
    if (labels := node.labels) is not None:
        for key, value in pod.node_selector.items():
            if labels.get(key) != value and (key in labels or not _ADDED_LABELS.match(key)):
                return False
    return all(tolerates(pod, taint) for taint in node.taints)


def tolerates(pod: PodTemplate, taint: Field) -> bool:
    """True if a pod tolerates a node's taint; PreferNoSchedule excludes no pod. Raises FieldError."""
    against = _texts(taint)
    return against["effect"] == "PreferNoSchedule" or any(
        tolerates_taint(_texts(each), against) for each in pod.at("tolerations").each()
    )


def _texts(field: Field) -> dict[str, str]:
    return {name: field.at(name).text() for name in ("key", "operator", "value", "effect")}


def queue_of(resource: Resource) -> Field:
    return resource.at("metadata", "labels", QUEUE_LABEL)


def local_queues(stack: Stack, namespace: str) -> Iterator[Resource]:
    near = stack.candidates([_LOCAL], namespaces, "", namespace)
    return matching(near, lambda each: each.namespace in ("", namespace))


def local_queue(stack: Stack, namespace: str, name: str) -> Resource | None:
    return next(
        matching(local_queues(stack, namespace), lambda each: each.object_name == name), None
    )


def cluster_queue_of(stack: Stack, local: Resource) -> Resource | None:
    """The ClusterQueue of a LocalQueue, None if the stack does not declare it. Raises FieldError."""
    name = local.at("spec", "clusterQueue").text()
    near = stack.candidates([_CLUSTER], object_names, name)
    return next(matching(near, lambda each: each.object_name == name), None)


def demand_of(stack: Stack, pod: PodTemplate) -> dict[str, float]:
    """The number of accelerators that a pod requests, by vendor, with its claims, but without CEL
    expressions and ResourceSlices.

    Raises FieldError, and UnseenFieldError for a claim of an unknown size: the stack does not
    declare it, or it claims all devices.
    """
    total = dict(pod.demand)
    for reference in pod.at("resourceClaims").each():
        for key, (kind, path) in _CLAIMS.items():
            name = reference.at(key)
            if not name.text():
                continue
            claim = next(stack.named(name.text(), pod.resource, kind), None)
            if claim is None:
                raise UnseenFieldError(name, "names a claim that the stack does not declare")
            for request in claim.at(*path, "devices", "requests").each():
                vendor, count = _demand_of_request(request)
                if vendor:
                    total[vendor] = total.get(vendor, 0) + count
    return total


def _demand_of_request(request: Field) -> tuple[str, float]:
    """The vendor and number of one request. Since resource.k8s.io/v1beta2 they are in `exactly`.
    Raises FieldError.
    """
    if not request.at("firstAvailable").absent:
        raise UnseenFieldError(
            request.at("firstAvailable"), "leaves the choice of devices to the scheduler"
        )
    exactly = request if request.at("exactly").absent else request.at("exactly")
    if exactly.at("allocationMode").text() == "All":
        raise UnseenFieldError(exactly.at("allocationMode"), "claims all devices of a node")
    name = exactly.at("deviceClassName")
    # A compute domain is a network between accelerators.
    if name.text().startswith("compute-domain-") and name.text().endswith(".nvidia.com"):
        return "", 0
    for ending, vendor in _DEVICE_CLASSES.items():
        if f".{name.text()}".endswith(f".{ending}"):
            return vendor, exactly.at("count").number_or(1)
    raise UnseenFieldError(name, "is a device class that no rule knows")
