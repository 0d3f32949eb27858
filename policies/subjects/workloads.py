"""Workloads that keep replicas running: how many, by which rollout, with which pods."""

from __future__ import annotations

import math

from policies.engine.fields import Field
from policies.engine.resource import Resource
from policies.engine.rule import Subject
from policies.subjects.pods import PODS, PodTemplate

_KINDS = ("kubernetes:apps:Deployment", "kubernetes:apps:StatefulSet")
WORKLOADS = Subject("workload", frozenset(_KINDS), lambda resource: (resource,))


def templates_of(workload: Resource) -> tuple[PodTemplate, ...]:
    """The pod templates of a workload."""
    return workload.parts(PODS)


def replicas_of(workload: Resource) -> float | None:
    """How many replicas a workload asks for; None where it leaves that to an autoscaler or to Kubernetes, which takes one."""
    return workload.at("spec", "replicas").number()


def rollout_of(workload: Resource) -> tuple[int, int]:
    """How many pods a Deployment adds (maxSurge) and leaves out (maxUnavailable) while it rolls."""
    strategy = workload.at("spec", "strategy")
    replicas = int(replicas_of(workload) or 1)
    if strategy.at("type").text() == "Recreate":
        return 0, replicas
    surge = _share(strategy.at("rollingUpdate", "maxSurge"), replicas, up=True)
    unavailable = _share(strategy.at("rollingUpdate", "maxUnavailable"), replicas, up=False)
    return surge, unavailable


def _share(field: Field, replicas: int, *, up: bool) -> int:
    text = field.text() or "25%"
    if not text.endswith("%"):
        return int(text)
    exact = replicas * float(text[:-1]) / 100
    return math.ceil(exact) if up else math.floor(exact)
