"""Replicas do not share one node or zone."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.workloads import WORKLOADS, replicas_of, templates_of


def _check(workload: Resource, _: Parameters) -> Findings:
    if (replicas_of(workload) or 1) < 2:
        return
    for pod in templates_of(workload):
        spread = any(True for _ in pod.at("topologySpreadConstraints").each())
        if not spread and not pod.at("affinity", "podAntiAffinity").value:
            yield found(pod.at("topologySpreadConstraints"), "is not set though there are several replicas")


RULE = Rule(
    id="pod-require-spread",
    title="Replicas do not share one node or zone",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "CKV topologySpreadConstraints-policy",
    ),
    why="Two replicas on one node are one node's failure away from none",
    remedy="set topologySpreadConstraints, or podAntiAffinity, for workloads with two replicas or more",
    subject=WORKLOADS,
    check=_check,
)
