"""Kueue's queues: which objects wait in one, and the quota of a queue. It admits nothing itself."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.fields import Field, matching
from policies.engine.resource import Resource, Stack

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_LOCAL = "kubernetes:kueue.x-k8s.io:LocalQueue"
_CLUSTER = "kubernetes:kueue.x-k8s.io:ClusterQueue"


def queue_of(resource: Resource) -> Field:
    """The label by which an object waits in a queue of its namespace."""
    return resource.at("metadata", "labels", QUEUE_LABEL)


def local_queues(stack: Stack, namespace: str) -> Iterator[Resource]:
    """The LocalQueues that the stack declares in a namespace, those that are known first. Raises FieldError."""
    return matching(stack.of(_LOCAL), lambda each: each.at("metadata", "namespace").text() in ("", namespace))


def local_queue(stack: Stack, namespace: str, name: str) -> Resource | None:
    """The LocalQueue of that name, None where the stack declares none in that namespace. Raises FieldError."""
    return next(matching(local_queues(stack, namespace), lambda each: each.at("metadata", "name").text() == name), None)


def cluster_queue_of(stack: Stack, local: Resource) -> Resource | None:
    """The ClusterQueue that a LocalQueue draws from, None where the stack does not declare it. Raises FieldError."""
    wanted = local.at("spec", "clusterQueue").text()
    return next(matching(stack.of(_CLUSTER), lambda each: each.at("metadata", "name").text() == wanted), None)


def covered(queue: Resource) -> Iterator[str]:
    """The names of the resources for which a ClusterQueue has quota. Raises FieldError."""
    for group in queue.at("spec", "resourceGroups").each():
        yield from group.at("coveredResources").texts()
