"""What a user writes about a queue: which pools it hands out, how much of each, and who goes first. Words are Kueue's own.

It looks at one queue at a time; whether its quotas fit the pools and its models fit the quotas is checked where a stack is read.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from components.spec import Bytes, Cpu, DnsName, Name, Spec

# Kueue's own limits (v1beta2): flavors of a resource group, and what an int32 holds.
MOST_POOLS = 64
Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


class PoolQuota(Spec):
    """How much of one pool a queue hands out; cpu, memory and huge pages follow the cards unless they are written."""

    accelerators: NonNegativeInt | None = None
    """Cards; all of the pool's by default."""
    cpu: Cpu | None = None
    """By default the pool's CPU in proportion to the cards."""
    memory: Bytes | None = None
    """By default the pool's memory in proportion to the cards."""
    pods: PositiveInt | None = None
    """The most pods at once; unlimited by default."""
    borrowing_limit: NonNegativeInt | None = None
    """Cards that may be borrowed from the cohort beyond the quota; all that are free by default."""
    lending_limit: NonNegativeInt | None = None
    """Cards that others of the cohort may borrow; all that are free by default."""


class Preemption(Spec):
    """Whether a workload that waits may stop another one that runs; by default it waits."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Stops workloads of this queue."""
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    """Stops workloads of other queues that run on what this queue lent."""


class QueueSpec(Spec):
    """A queue of Kueue: workloads wait in it until its quota has room."""

    pools: Annotated[dict[Name, PoolQuota], Field(min_length=1, max_length=MOST_POOLS)]
    """What the queue hands out, by the name of the pool, in the order in which it is tried."""
    cohort: DnsName | None = None
    """Queues of one cohort lend each other what they do not use."""
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    """Whether a workload that fits may pass one that waits for more room."""
    preemption: Preemption = Preemption()
    priorities: dict[Name, Priority] = {}
    """Priorities that workloads of this queue may name; the higher goes first."""

    @model_validator(mode="after")
    def _limits_need_a_cohort(self) -> Self:
        limited = [name for name, quota in self.pools.items() if quota.borrowing_limit is not None or quota.lending_limit is not None]
        if limited and self.cohort is None:
            raise ValueError(
                f"borrowingLimit and lendingLimit of {', '.join(limited)} need a cohort to borrow from; write cohort, or remove them"
            )
        return self

    @model_validator(mode="after")
    def _reclaiming_needs_a_cohort(self) -> Self:
        if self.preemption.reclaim_within_cohort != "Never" and self.cohort is None:
            raise ValueError("preemption.reclaimWithinCohort takes back what was lent, and there is no cohort; write cohort, or remove it")
        return self

    @model_validator(mode="after")
    def _what_is_lent_is_there(self) -> Self:
        for name, quota in self.pools.items():
            if quota.lending_limit is not None and quota.accelerators is not None and quota.lending_limit > quota.accelerators:
                raise ValueError(f"pools.{name}.lendingLimit is {quota.lending_limit} of {quota.accelerators} accelerators; lower it")
        return self
