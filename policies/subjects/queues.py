"""Kueue's queues: which objects wait in one, and what a queue may hand out. It admits nothing itself."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.fields import Field
from policies.engine.resource import Resource, Stack

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_LOCAL = "kubernetes:kueue.x-k8s.io:LocalQueue"
_CLUSTER = "kubernetes:kueue.x-k8s.io:ClusterQueue"


def queue_of(resource: Resource) -> Field:
    """The label by which an object waits in a queue of its namespace."""
    return resource.at("metadata", "labels", QUEUE_LABEL)


def local_queues(stack: Stack, namespace: str) -> dict[str, Resource]:
    """The LocalQueues that the stack declares in a namespace, by name. Raises FieldError."""
    return {
        each.at("metadata", "name").text(): each for each in stack.of(_LOCAL) if each.at("metadata", "namespace").text() in ("", namespace)
    }


def cluster_queue_of(stack: Stack, local: Resource) -> Resource | None:
    """The ClusterQueue that a LocalQueue draws from, None where the stack does not declare it. Raises FieldError."""
    wanted = local.at("spec", "clusterQueue").text()
    return next((each for each in stack.of(_CLUSTER) if each.at("metadata", "name").text() == wanted), None)


def covered(queue: Resource) -> Iterator[str]:
    """The names of the resources that a ClusterQueue hands out. Raises FieldError."""
    for group in queue.at("spec", "resourceGroups").each():
        yield from group.at("coveredResources").texts()
