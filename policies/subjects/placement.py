"""Labels, selectors, taints, nodes and queues of a stack: where its pods can run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kube.names import QUEUE_LABEL, RESOURCE_VENDORS, vendor_of
from policies.engine.fields import Field, matching
from policies.engine.resource import Resource, Stack
from policies.subjects.pods import PodTemplate

_EKS_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}

# Labels that the kubelet, the cloud and feature discovery add to a running node.
_ADDED_LABELS = re.compile(
    r"([a-z.-]+\.)?(kubernetes\.io|k8s\.io|k8s\.aws|eks\.amazonaws\.com|nvidia\.com|intel\.com|amd\.com|karpenter\.sh)/"
)
_UNLIMITED = dict.fromkeys(RESOURCE_VENDORS.values(), math.inf)
# Taints that Kubernetes and the cloud's controller add while a node starts, fails or drains.
# https://kubernetes.io/docs/reference/labels-annotations-taints/, read 2026-11.
_LIFECYCLE_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class Node(NamedTuple):
    """One declared node with its accelerators by vendor. Unknown labels are None and match any pod."""

    labels: dict[str, str] | None
    taints: tuple[Field, ...]
    accelerators: dict[str, float]


def labels_at(field: Field) -> dict[str, str]:
    """The labels at `field` as plain text. Raises FieldError."""
    return {key: each.text() for key, each in field.entries()}


def matches_labels(selector: Field, labels: dict[str, str]) -> bool:
    """True if a label selector (matchLabels, matchExpressions) matches `labels`. Raises FieldError."""
    if any(labels.get(key) != each.text() for key, each in selector.at("matchLabels").entries()):
        return False
    return all(_expression(each, labels) for each in selector.at("matchExpressions").each())


def _expression(expression: Field, labels: dict[str, str]) -> bool:
    key, values = expression.at("key").text(), expression.at("values").texts()
    match expression.at("operator").text():
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def nodes_of(stack: Stack) -> Iterator[Node]:
    """The nodes that the stack declares, with EKS node groups and Karpenter NodePools at their maximum size.

    A NodePool without a limit of nodes is one node with unlimited accelerators. It records what it cannot read, and counts it as suitable, so that no pod is blocked because of it.
    """
    for each in stack.of("kubernetes:core:Node"):
        labels, taints, accelerators = None, (), _UNLIMITED
        with stack.unreadable:
            labels = labels_at(each.at("metadata", "labels"))
            taints = tuple(taint for taint in each.at("spec", "taints").each() if not taint.at("key").text().startswith(_LIFECYCLE_TAINTS))
        with stack.unreadable:
            accelerators = _allocatable(each)
        yield Node(labels, taints, accelerators)
    for group in stack.of("aws:eks:NodeGroup"):
        labels, taints, accelerators, size = None, (), _UNLIMITED, None
        with stack.unreadable:
            labels, taints = labels_at(group.at("labels")), tuple(map(_taint, group.at("taints").each()))
        with stack.unreadable:
            accelerators = _eks_accelerators(stack, group)
        with stack.unreadable:
            size = int(group.at("scalingConfig", "maxSize").number() or 0)
        if size is None:
            yield Node(labels, taints, {vendor: math.inf for vendor, count in accelerators.items() if count})
        else:
            yield from [Node(labels, taints, accelerators)] * size
    for pool in stack.of("kubernetes:karpenter.sh:NodePool"):
        yield from _karpenter_nodes(stack, pool)


def _karpenter_nodes(stack: Stack, pool: Resource) -> list[Node]:
    labels, taints, accelerators, size = None, (), _UNLIMITED, None
    template = pool.at("spec", "template")
    with stack.unreadable:
        requirements = {each.at("key").text(): each for each in template.at("spec", "requirements").each()}
        # Karpenter labels each node with a value of every requirement, of which only our own and people's keys matter.
        if all(_ADDED_LABELS.match(key) for key in requirements):
            labels = labels_at(template.at("metadata", "labels"))
        taints = tuple(template.at("spec", "taints").each())
        types = requirements.get(_INSTANCE_TYPE)
        if types is not None and types.at("operator").text() == "In":
            accelerators = _accelerators_of_types(types.at("values").texts())
    with stack.unreadable:
        size = pool.at("spec", "replicas").number() or pool.at("spec", "limits", "nodes").quantity()
    if size is None:
        return [Node(labels, taints, dict.fromkeys(accelerators, math.inf))]
    return [Node(labels, taints, accelerators)] * int(size)


def _allocatable(node: Resource) -> dict[str, float]:
    accelerators: dict[str, float] = {}
    for name, field in node.at("status", "allocatable").entries():
        if vendor_of(name):
            accelerators[vendor_of(name)] = accelerators.get(vendor_of(name), 0) + (field.quantity() or 0)
    return accelerators


def _taint(taint: Field) -> Field:
    """A taint of a node group with the effects of Kubernetes. Raises FieldError."""
    effect = _EKS_EFFECTS.get(taint.at("effect").text(), "")
    return Field({"key": taint.at("key").text(), "value": taint.at("value").text(), "effect": effect})


def _eks_accelerators(stack: Stack, group: Resource) -> dict[str, float]:
    # A node group for a capacity block has its instance type in the launch template.
    templates = [each for urn in group.dependencies if (each := stack.by_urn(urn)) and each.kind == "aws:ec2:LaunchTemplate"]
    types = group.at("instanceTypes").texts() or [each.at("instanceType").text() for each in templates if each.at("instanceType").text()]
    return _accelerators_of_types(types, nvidia="NVIDIA" in group.at("amiType").text())


def _accelerators_of_types(types: Sequence[str], *, nvidia: bool = False) -> dict[str, float]:
    if any(each.startswith("dl1.") for each in types):
        return {"habana": 8}
    if nvidia or any(each.startswith(("g", "p")) for each in types):
        # Without an instance type, the number of accelerators is unknown, so it is not limited.
        return {"nvidia": min((_accelerators_of(each) for each in types), default=math.inf)}
    return {}


def _accelerators_of(instance_type: str) -> float:
    family, _, size = instance_type.partition(".")
    if family.startswith("p"):
        return 1 if size == "4xlarge" else 8
    return {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8, "metal": 8}.get(size, 1)


def fits_on(pod: PodTemplate, node: Node) -> bool:
    """True if a pod's nodeSelector and tolerations match `node`, ignoring labels that a running node gets. Raises FieldError."""
    labels = node.labels
    if labels is not None and any(
        labels.get(key) != value and (key in labels or not _ADDED_LABELS.match(key))
        for key, value in labels_at(pod.at("nodeSelector")).items()
    ):
        return False
    return all(tolerates(pod, taint) for taint in node.taints)


def tolerates(pod: PodTemplate, taint: Field) -> bool:
    """True if a pod tolerates a node's taint; PreferNoSchedule excludes no pod. Raises FieldError."""
    effect = taint.at("effect").text()
    if effect == "PreferNoSchedule":
        return True
    for each in pod.at("tolerations").each():
        if each.at("effect").text() not in ("", effect):
            continue
        key = each.at("key").text()
        if each.at("operator").text() == "Exists":
            if key in ("", taint.at("key").text()):
                return True
        elif key == taint.at("key").text() and each.at("value").text() == taint.at("value").text():
            return True
    return False


def same_namespace(one: Resource, other: Resource) -> bool:
    """True if two objects are in the same namespace. Raises FieldError."""
    return one.at("metadata", "namespace").text() == other.at("metadata", "namespace").text()


_LOCAL = "kubernetes:kueue.x-k8s.io:LocalQueue"
_CLUSTER = "kubernetes:kueue.x-k8s.io:ClusterQueue"


def queue_of(resource: Resource) -> Field:
    """The label with the queue of an object."""
    return resource.at("metadata", "labels", QUEUE_LABEL)


def local_queues(stack: Stack, namespace: str) -> Iterator[Resource]:
    """The LocalQueues that the stack declares in a namespace. Raises FieldError."""
    return matching(stack.of(_LOCAL), lambda each: each.at("metadata", "namespace").text() in ("", namespace))


def local_queue(stack: Stack, namespace: str, name: str) -> Resource | None:
    """The LocalQueue of that name in a namespace, or None. Raises FieldError."""
    return next(matching(local_queues(stack, namespace), lambda each: each.at("metadata", "name").text() == name), None)


def cluster_queue_of(stack: Stack, local: Resource) -> Resource | None:
    """The ClusterQueue of a LocalQueue, None if the stack does not declare it. Raises FieldError."""
    name = local.at("spec", "clusterQueue").text()
    return next(matching(stack.of(_CLUSTER), lambda each: each.at("metadata", "name").text() == name), None)


def covered(queue: Resource) -> Iterator[str]:
    """The names of the resources for which a ClusterQueue has quota. Raises FieldError."""
    for group in queue.at("spec", "resourceGroups").each():
        yield from group.at("coveredResources").texts()
