"""Forecast of a workload's rollout from its declaration: strategy, maximum duration and unavailable
replicas, but no DaemonSets.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferplan.capacity.capacity import PoolCapacity
from inferplan.capacity.declared import with_claims
from inferplan.documents.text import clean
from inferplan.kube.paths import mapping
from inferplan.kube.pod_sets import PodSet
from inferplan.kube.quantity import number
from inferplan.review.reading.declared import declared
from inferplan.review.reading.preview import Preview, StepSummary

IN_PLACE, SURGE, MIXED, RECREATE = "in place", "surge", "mixed", "recreate"
SECOND_CLUSTER, BY_HAND = "second cluster", "only by deleting it"
_WITHOUT_ROLLOUT = ("DaemonSet",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The forecast for one workload. `replicas` are those that run now; minutes are an upper bound,
    None where no probe gives one.
    """

    urn: str
    name: str
    kind: str
    manner: str
    replicas: int
    unavailable: int
    minutes: int | None
    extra: int
    resource: str
    stuck: str

    @property
    def has_downtime(self) -> bool:
        return 0 < self.replicas <= self.unavailable


@dataclass(frozen=True, slots=True)
class _Strategy:
    """Replicas that one step of a rollout adds and removes."""

    manner: str
    surge: int
    missing: int


@dataclass(frozen=True, slots=True)
class _Workload:
    """Pods that are exchanged together as replicas: single pods, groups of pods, or the workers of
    a cluster.
    """

    replicas: int
    accelerators: int
    resource: str
    pool: str
    minutes: int | None


def rollouts(preview: Preview, after: Mapping[str, PoolCapacity]) -> tuple[Rollout, ...]:
    """Forecasts for the workloads whose pods change; `after` are the pools as they will be."""
    forecasts = []
    were, will = (
        {each.urn: each.pods for each in with_claims(declared(preview, side))}
        for side in ("before", "after")
    )
    for step in preview.changed:
        if (
            step.op not in ("update", "replace")
            or step.kind in _WITHOUT_ROLLOUT
            or not (step.op == "replace" or step.pods_change)
        ):
            continue
        if step.old and step.old.pods and step.new and step.new.pods:
            old = _workload(step, were.get(step.urn, step.old.pods))
            new = _workload(step, will.get(step.urn, step.new.pods))
            forecasts.append(_forecast(step, old, new, after.get(new.pool)))
    return tuple(
        sorted(forecasts, key=lambda each: (not each.stuck, not each.has_downtime, each.name))
    )


def _workload(step: StepSummary, sets: tuple[PodSet, ...]) -> _Workload:
    replicas = sets[0].replicas
    if step.kind.startswith("Ray"):
        replicas = sum(each.replicas for each in sets if each.accelerators) or replicas
    accelerators = sum(each.accelerators * each.replicas for each in sets)
    seconds = max(each.start_seconds for each in sets)
    return _Workload(
        replicas=replicas,
        accelerators=accelerators // replicas if replicas else sets[0].accelerators,
        resource=next((each.resource for each in sets if each.resource), ""),
        pool=next((each.pool for each in sets if each.accelerators), sets[0].pool),
        minutes=math.ceil(seconds / 60) if seconds else None,
    )


def _forecast(
    step: StepSummary, old: _Workload, new: _Workload, pool: PoolCapacity | None
) -> Rollout:
    strategy = _strategy(step, old, new)
    # What must stay is counted from the new number of replicas: one more of them makes up for one
    # that is away.
    stays = 0 if strategy.manner == RECREATE else max(new.replicas - strategy.missing, 0)
    waves = (
        math.ceil(new.replicas / max(strategy.surge + strategy.missing, 1))
        if strategy.manner != RECREATE
        else 1
    )
    return Rollout(
        urn=step.urn,
        name=step.name,
        kind=step.kind,
        manner=strategy.manner,
        replicas=old.replicas,
        unavailable=max(old.replicas - stays, 0),
        minutes=None if new.minutes is None or strategy.manner == BY_HAND else new.minutes * waves,
        extra=strategy.surge * new.accelerators,
        resource=new.resource,
        stuck=_stuck(strategy, new, pool),
    )


def _strategy(step: StepSummary, old: _Workload, new: _Workload) -> _Strategy:
    spec = mapping(step.new.inputs if step.new else None, "spec")
    declared = mapping(spec, "strategy") or mapping(spec, "updateStrategy")
    if step.op == "replace" or declared.get("type") == "Recreate":
        return _Strategy(RECREATE, 0, old.replicas)
    if step.kind == "RayService":
        # KubeRay starts a second cluster next to the first, or leaves the first unchanged.
        is_manual = mapping(spec, "upgradeStrategy").get("type") == "None"
        return _Strategy(BY_HAND, 0, 0) if is_manual else _Strategy(SECOND_CLUSTER, new.replicas, 0)
    rolling = mapping(declared, "rollingUpdate")
    if step.kind == "LeaderWorkerSet":
        rolling = {"maxSurge": 0, "maxUnavailable": 1} | mapping(
            spec, "rolloutStrategy", "rollingUpdateConfiguration"
        )
    surge = (
        0
        if step.kind == "StatefulSet"
        else share_of(rolling.get("maxSurge"), new.replicas, up=True)
    )
    missing = share_of(rolling.get("maxUnavailable"), new.replicas, up=False) or (0 if surge else 1)
    return _Strategy(
        SURGE if surge and not missing else MIXED if surge else IN_PLACE, surge, missing
    )


def _stuck(strategy: _Strategy, new: _Workload, pool: PoolCapacity | None) -> str:
    if strategy.manner == BY_HAND:
        return "its upgradeStrategy is None: the old pods keep running until the object is deleted"
    # A pool without known nodes has an unknown number of free accelerators.
    if pool is None or not pool.nodes or not new.accelerators or not new.replicas:
        return ""
    needed = new.accelerators * (strategy.surge if strategy.manner == SECOND_CLUSTER else 1)
    # Old pods hold their accelerators until they end, so they count as used.
    free = max(pool.offered - pool.requested, 0)
    if strategy.surge and not strategy.missing and free < needed:
        what = "its second cluster" if strategy.manner == SECOND_CLUSTER else "a new replica"
        return (
            f"{what} needs {needed} free {clean(new.resource)} on {clean(pool.pool)}, {free} are:"
            " the rollout waits until they are free"
        )
    if pool.requested > pool.offered:
        return (
            f"{clean(pool.pool)} offers {pool.offered} {clean(new.resource)} and {pool.requested}"
            " are requested: pods will stay Pending"
        )
    return ""


def share_of(value: Any, replicas: int, *, up: bool) -> int:
    """`maxSurge` or `maxUnavailable` in replicas: a number, or a share rounded the way Kubernetes
    rounds it; 25 % by default.
    """
    if value is None:
        value = "25%"
    if isinstance(value, str) and value.endswith("%"):
        share = number(value[:-1], 25) * replicas / 100
        return math.ceil(share) if up else math.floor(share)
    return number(value, 0)
