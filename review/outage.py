"""Risks that no single property tells: a workload that is silent while it rolls, a pool that is overcommitted."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from review.capacity import PoolCapacity
from review.figures import Figures
from review.risk import Risk
from review.rollout import Rollout
from review.text import clean


def outages(figures: Figures, *, reported: Collection[str] = ()) -> Iterator[Risk]:
    """The risks in the figures of a stack; no downtime for resources whose URN is in `reported`."""
    for each in figures.forecasts:
        if each.has_downtime and not each.stuck and each.urn not in reported:
            yield _downtime(each)
    for pool in figures.short:
        yield _overcommitment(pool)


def _downtime(rollout: Rollout) -> Risk:
    minutes = "until a new one is ready" if rollout.minutes is None else f"for up to {rollout.minutes} minutes"
    return Risk(
        weight=1,
        what="has downtime during the rollout",
        kind=clean(rollout.kind),
        name=clean(rollout.name),
        urn=clean(rollout.urn),
        cause=f"{rollout.manner}, {rollout.unavailable} of {rollout.replicas} replicas at a time",
        consequence=f"no replica is ready {minutes}",
    )


def _overcommitment(pool: PoolCapacity) -> Risk:
    missing = f"{pool.asked} {clean(pool.resource)} requested, {pool.offered} offered"
    return Risk(
        weight=1,
        what="is overcommitted",
        kind="pool",
        name=clean(pool.pool),
        urn=f"pool {clean(pool.pool)}",
        cause=missing,
        consequence="pods stay Pending until it has more nodes or smaller requests",
    )
