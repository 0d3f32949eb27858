"""Workloads with several replicas have a disruption budget."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import pods_of, selecting, standing_pods
from policies.subjects.workloads import count_of


def _check(stack: Stack, _: Parameters) -> Findings:
    for pod in pods_of(stack):
        with stack.doubts:
            if standing_pods(stack, pod) < 2:
                continue
            workload = pod.resource
            if not any(True for _ in selecting(stack, "kubernetes:policy:PodDisruptionBudget", workload, pod, "spec", "selector")):
                yield found(count_of(pod), "has no disruption budget", urn=workload.urn)


RULE = StackRule(
    id="stack-require-disruption-budget",
    title="Workloads with several replicas have a disruption budget",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "Kyverno require-pdb",
    ),
    why="Without a budget, a drain can evict all replicas at the same time",
    remedy="add a PodDisruptionBudget with maxUnavailable: 1 that selects the pods",
    check=_check,
)
