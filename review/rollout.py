"""How a change of a workload's pods will go: in what manner, how long at most, how many replicas are missing meanwhile.

A forecast from the declaration alone: the rolling strategy, the start-up probe's budget and the pool's free accelerators.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from review.capacity import PodSet, PoolCapacity, pod_sets
from review.declared import Declared, declared, mapping, number
from review.preview import Preview


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The forecast for one workload. Minutes are an upper bound, None where no start-up probe gives one."""

    name: str
    kind: str
    manner: str
    replicas: int
    unavailable: int
    minutes: int | None
    extra: int
    resource: str
    free: int
    stuck: str


def rollouts(preview: Preview, after: Mapping[str, PoolCapacity]) -> tuple[Rollout, ...]:
    """Forecasts for the workloads whose pods change; `after` are the pools as they will be."""
    before = _sets(preview, "before")
    found = []
    for step in preview.changed:
        for pods in _sets_of(step.urn, step.type, step.name, (step.new.inputs if step.new and step.op != "delete" else None) or {}):
            old = before.get((step.urn, pods.index))
            if old is None or step.op not in ("update", "replace"):
                continue
            if step.op == "replace" or old.template != pods.pods.template:
                found.append(_forecast(step.kind, step.op, old, pods.pods, after.get(pods.pods.pool)))
    return tuple(sorted(found, key=lambda each: (not each.stuck, each.name)))


@dataclass(frozen=True, slots=True)
class _Indexed:
    index: int
    pods: PodSet


def _sets(preview: Preview, side: Any) -> dict[tuple[str, int], PodSet]:
    return {(each.urn, index): pods for each in declared(preview, side) for index, pods in enumerate(pod_sets(each))}


def _sets_of(urn: str, type_: str, name: str, inputs: dict[str, Any]) -> list[_Indexed]:
    resource = Declared(type=type_, urn=urn, name=name, inputs=inputs)
    return [_Indexed(index, pods) for index, pods in enumerate(pod_sets(resource))]


def _forecast(kind: str, op: str, old: PodSet, new: PodSet, pool: PoolCapacity | None) -> Rollout:
    strategy = mapping(new.owner, "strategy") or mapping(new.owner, "updateStrategy")
    rolling = mapping(strategy, "rollingUpdate")
    replicas = new.replicas
    if op == "replace" or strategy.get("type") == "Recreate":
        manner, surge, missing = "recreate", 0, old.replicas
    else:
        surge = 0 if kind == "StatefulSet" else share_of(rolling.get("maxSurge"), replicas, up=True)
        missing = share_of(rolling.get("maxUnavailable"), replicas, up=False)
        missing = missing or (0 if surge else 1)
        manner = "surge" if surge and not missing else "in place" if not surge else "mixed"
    waves = 1 if manner == "recreate" else math.ceil(replicas / max(surge + missing, 1))
    each_minutes = _start_minutes(new)
    # Old pods leave their cards only once they are gone, so what is free is counted with them in place.
    free = max(pool.offered - pool.asked, 0) if pool else 0
    extra = surge * new.cards
    stuck = ""
    if replicas and surge and not missing and new.cards and pool is not None and free < new.cards:
        stuck = f"a new replica needs {new.cards} free {new.resource} on {pool.pool}, {free} are: it waits until somebody frees them"
    elif pool is not None and pool.asked > pool.offered and new.cards:
        stuck = f"{pool.pool} offers {pool.offered} {new.resource} and {pool.asked} are asked for: pods will stay Pending"
    return Rollout(
        name=new.name,
        kind=kind,
        manner=manner,
        replicas=replicas,
        unavailable=min(missing, old.replicas),
        minutes=None if each_minutes is None else each_minutes * waves,
        extra=extra,
        resource=new.resource,
        free=free,
        stuck=stuck,
    )


def share_of(value: Any, replicas: int, *, up: bool) -> int:
    """`maxSurge` or `maxUnavailable` in replicas: a number, or a share rounded the way Kubernetes rounds it; 25 % by default."""
    if value is None:
        value = "25%"
    if isinstance(value, str) and value.endswith("%"):
        share = number(value[:-1], 25) * replicas / 100
        return math.ceil(share) if up else math.floor(share)
    return number(value, 0)


def _start_minutes(pods: PodSet) -> int | None:
    seconds = 0
    for container in mapping(pods.template, "spec").get("containers") or []:
        probe = mapping(container, "startupProbe")
        if probe:
            seconds = max(seconds, number(probe.get("failureThreshold"), 3) * number(probe.get("periodSeconds"), 10))
    return math.ceil(seconds / 60) if seconds else None
