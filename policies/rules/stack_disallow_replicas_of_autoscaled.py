"""Autoscaled workloads declare no replicas."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import SCALERS, workloads_of
from policies.subjects.workloads import LEADER_WORKER_SET


def _check(stack: Stack, _: Parameters) -> Findings:
    scaled = set()
    for scaler in stack.of(*SCALERS):
        with stack.doubts:
            target = scaler.at("spec", "scaleTargetRef")
            kind = target.at("kind").text() or "Deployment"
            scaled.add((scaler.at("metadata", "namespace").text(), kind, target.at("name").text()))
    for workload in (*workloads_of(stack), *stack.of(LEADER_WORKER_SET)):
        with stack.doubts:
            name = (workload.at("metadata", "namespace").text(), workload.short_kind, workload.at("metadata", "name").text())
            if name in scaled and not workload.at("spec", "replicas").absent:
                yield found(workload.at("spec", "replicas"), "is set, but an autoscaler controls it", urn=workload.urn)


RULE = StackRule(
    id="stack-disallow-replicas-of-autoscaled",
    title="Autoscaled workloads declare no replicas",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "Kyverno check-hpa",
    ),
    why="Every update would reset the number of replicas, even at peak load",
    remedy="omit spec.replicas from a workload that an HPA or a ScaledObject scales",
    check=_check,
)
