"""The settings of a Kueue queue in Kueue's terms: pools, quotas and priorities, and the names and
labels of its objects.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from inferplan.components.naming import bounded
from inferplan.components.spec import Bytes, Cpu, DnsName, Name, Spec, rule
from inferplan.kube.names import PRIORITY_LABEL, QUEUE_LABEL

# Limits of Kueue (v1beta2): flavors of a resource group, and an int32.
MAX_POOLS = 64
Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


class PoolQuota(Spec):
    """Quota of one pool. CPU, memory and huge pages are in proportion to the accelerators unless
    they are set.
    """

    accelerators: NonNegativeInt | None = None
    """Accelerators. Default: all of the pool."""
    cpu: Cpu | None = None
    """CPU. Default: the pool's CPU in proportion to the accelerators."""
    memory: Bytes | None = None
    """Memory. Default: the pool's memory in proportion to the accelerators."""
    pods: PositiveInt | None = None
    """Maximum number of pods. Default: unlimited."""
    borrowing_limit: NonNegativeInt | None = None
    """Accelerators that the queue may borrow from its cohort. Default: all unused ones."""
    lending_limit: NonNegativeInt | None = None
    """Accelerators that other queues of the cohort may borrow. Default: all unused ones."""


class Preemption(Spec):
    """The running workloads that a waiting one may evict. Default: none."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Evicts workloads of this queue."""
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    """Evicts workloads of other queues that borrowed the quota of this queue."""


class QueueSpec(Spec):
    """A Kueue queue: workloads wait in it until they fit its quota."""

    pools: Annotated[dict[Name, PoolQuota], Field(min_length=1, max_length=MAX_POOLS)]
    """Quotas by the name of the pool. Kueue tries the pools in this order."""
    cohort: DnsName | None = None
    """Queues with the same cohort borrow unused quota from each other."""
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    """The order of admission: a workload that fits may overtake a blocked one (BestEffortFIFO) or
    not (StrictFIFO).
    """
    preemption: Preemption = Preemption()
    priorities: dict[Name, Priority] = {}
    """Priorities for workloads of this queue. A higher value is admitted first."""

    @rule
    def _check_cohort(self) -> Iterator[str]:
        limited = [
            name
            for name, quota in self.pools.items()
            if quota.borrowing_limit is not None or quota.lending_limit is not None
        ]
        if limited and self.cohort is None:
            yield (
                f"borrowingLimit and lendingLimit of {', '.join(limited)} require cohort. Set"
                " cohort, or remove them."
            )
        if self.preemption.reclaim_within_cohort != "Never" and self.cohort is None:
            yield "preemption.reclaimWithinCohort requires cohort. Set cohort, or remove it."
        for name, quota in self.pools.items():
            if (
                quota.lending_limit is not None
                and quota.accelerators is not None
                and quota.lending_limit > quota.accelerators
            ):
                yield (
                    f"pools.{name}.lendingLimit ({quota.lending_limit}) is more than accelerators"
                    f" ({quota.accelerators}). Lower it."
                )


def cluster_scoped_name(namespace: str, name: str) -> str:
    """Return the name of a cluster-scoped object of `namespace`, so that stacks in one cluster do
    not collide.
    """
    return f"{namespace}-{name}"


def priority_class(namespace: str, queue: str, priority: str) -> str:
    """Return the name of the WorkloadPriorityClass of `priority` of `queue`, at most 63 characters
    because it is a label value.
    """
    return bounded(cluster_scoped_name(namespace, queue), priority)


def queue_labels(namespace: str, queue: str | None, priority: str | None) -> dict[str, str]:
    """Return the labels of a workload that Kueue admits from `queue`; none without a queue."""
    if queue is None:
        return {}
    priority_label = (
        {} if priority is None else {PRIORITY_LABEL: priority_class(namespace, queue, priority)}
    )
    return {QUEUE_LABEL: queue, **priority_label}
