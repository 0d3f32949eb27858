"""Workloads with several replicas have a disruption budget."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import selecting, standing_pods


def _check(stack: Stack, _: Parameters) -> Findings:
    for workload, pod, count in standing_pods(stack):
        if count < 2:
            continue
        if not any(True for _ in selecting(stack, "kubernetes:policy:PodDisruptionBudget", workload, pod, "spec", "selector")):
            yield found(workload.at("spec", "replicas"), "has no disruption budget", urn=workload.urn)


RULE = StackRule(
    id="stack-require-disruption-budget",
    title="Workloads with several replicas have a disruption budget",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "Kyverno require-pdb",
    ),
    why="Without one a drain takes all replicas at once",
    remedy="add a PodDisruptionBudget with maxUnavailable: 1 that selects the pods",
    check=_check,
)
