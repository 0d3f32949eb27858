"""Names and labels by which workloads and Kueue's objects find each other. Kueue's own words."""

from __future__ import annotations

from components.naming import bounded

API_VERSION = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
KUEUE_GATE = "kueue.x-k8s.io/admission"
"""The scheduling gate of a pod that Kueue has not admitted."""


def scoped(namespace: str, name: str) -> str:
    """The name of an object of the whole cluster that belongs to `namespace`: two stacks on one cluster do not meet."""
    return f"{namespace}-{name}"


def priority_class(namespace: str, queue: str, priority: str) -> str:
    """The WorkloadPriorityClass of `priority` of `queue`; a label carries it, so it ends at 63 characters."""
    return bounded(scoped(namespace, queue), priority)


def queue_labels(namespace: str, queue: str | None, priority: str | None) -> dict[str, str]:
    """What a workload carries so that Kueue admits it from `queue`; nothing without one."""
    if queue is None:
        return {}
    named = {} if priority is None else {PRIORITY_LABEL: priority_class(namespace, queue, priority)}
    return {QUEUE_LABEL: queue, **named}
