"""Replicas are spread over nodes or zones."""

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
                    yield found(pod.at("topologySpreadConstraints"), "is not set, but there are several replicas", urn=workload.urn)


RULE = StackRule(
    id="pod-require-spread",
    title="Replicas are spread over nodes or zones",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "CKV topologySpreadConstraints-policy",
    ),
    why="If all replicas run on one node, its failure takes the model down",
    remedy=(
        "set topologySpreadConstraints or podAntiAffinity on workloads with two or more replicas, including the minimum of their autoscaler"
    ),
    check=_check,
)
