"""Dangers that no single property tells: a workload that is silent while it rolls, a pool that is asked for more than it has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from review.capacity import PoolCapacity
from review.danger import Danger
from review.figures import Figures
from review.rollout import Rollout
from review.text import clean


def outages(figures: Figures, *, told: Collection[str] = ()) -> Iterator[Danger]:
    """The warnings that the figures of a stack earn, none for the silence of resources whose URN is in `told` already."""
    for each in figures.forecasts:
        if each.silent and not each.stuck and each.urn not in told:
            yield _silence(each)
    for pool in figures.short:
        yield _shortage(pool)


def _silence(rollout: Rollout) -> Danger:
    minutes = "for as long as a start takes" if rollout.minutes is None else f"for up to {rollout.minutes} minutes"
    return Danger(
        weight=1,
        what="stops answering while it rolls",
        kind=clean(rollout.kind),
        name=clean(rollout.name),
        urn=clean(rollout.urn),
        cause=f"{rollout.manner}, {rollout.unavailable} of {rollout.replicas} replicas at a time",
        consequence=f"no replica answers {minutes}",
    )


def _shortage(pool: PoolCapacity) -> Danger:
    missing = f"asks for {pool.asked} {clean(pool.resource)}, offers {pool.offered}"
    return Danger(
        weight=1,
        what="is asked for more than it has",
        kind="pool",
        name=clean(pool.pool),
        urn=f"pool {clean(pool.pool)}",
        cause=missing,
        consequence="pods stay Pending until it has more nodes or is asked for less",
    )
