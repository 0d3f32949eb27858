"""Replicas do not share one node or zone."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import least_replicas, workloads_of
from policies.subjects.workloads import templates_of


def _check(stack: Stack, _: Parameters) -> Findings:
    for workload in workloads_of(stack):
        with stack.doubts:
            for pod in templates_of(workload):
                spread = any(True for _ in pod.at("topologySpreadConstraints").each()) or pod.at("affinity", "podAntiAffinity").value
                if not spread and least_replicas(stack, workload) >= 2:
                    yield found(pod.at("topologySpreadConstraints"), "is not set though there are several replicas", urn=workload.urn)


RULE = StackRule(
    id="pod-require-spread",
    title="Replicas do not share one node or zone",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "CKV topologySpreadConstraints-policy",
    ),
    why="Two replicas on one node are one node's failure away from none",
    remedy="set topologySpreadConstraints, or podAntiAffinity, for workloads with two replicas or more, their autoscaler's least number counted",
    check=_check,
)
