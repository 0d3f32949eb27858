"""Workloads with several replicas have a disruption budget."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import least_replicas, selecting, workloads_of
from policies.subjects.workloads import templates_of


def _check(stack: Stack, _: Parameters) -> Findings:
    for workload in workloads_of(stack):
        if least_replicas(stack, workload) < 2:
            continue
        for pod in templates_of(workload):
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
