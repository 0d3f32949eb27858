"""Names and labels that connect workloads and Kueue's objects."""

from __future__ import annotations

from components.naming import bounded
from kube.names import PRIORITY_LABEL, QUEUE_LABEL


def cluster_scoped_name(namespace: str, name: str) -> str:
    """Return the name of a cluster-scoped object of `namespace`, so that stacks in one cluster do not collide."""
    return f"{namespace}-{name}"


def priority_class(namespace: str, queue: str, priority: str) -> str:
    """Return the name of the WorkloadPriorityClass of `priority` of `queue`, at most 63 characters because it is a label value."""
    return bounded(cluster_scoped_name(namespace, queue), priority)


def queue_labels(namespace: str, queue: str | None, priority: str | None) -> dict[str, str]:
    """Return the labels of a workload that Kueue admits from `queue`; none without a queue."""
    if queue is None:
        return {}
    priority_label = {} if priority is None else {PRIORITY_LABEL: priority_class(namespace, queue, priority)}
    return {QUEUE_LABEL: queue, **priority_label}
