"""Disruption budgets ask for fewer pods than there are."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import least_replicas, selecting, workloads_of
from policies.subjects.workloads import share, templates_of


def _check(stack: Stack, _: Parameters) -> Findings:
    for workload in workloads_of(stack):
        replicas = least_replicas(stack, workload)
        for pod in templates_of(workload):
            for budget in selecting(stack, "kubernetes:policy:PodDisruptionBudget", workload, pod, "spec", "selector"):
                least = budget.at("spec", "minAvailable")
                if not least.absent and share(least, int(replicas) or 1, up=True) >= max(replicas, 1):
                    yield found(least, "leaves no replica to disrupt", urn=budget.urn)


RULE = StackRule(
    id="stack-disallow-budget-of-all-replicas",
    title="Disruption budgets ask for fewer pods than there are",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "Kyverno deployment-replicas-higher-than-pdb",
    ),
    why="A budget of all replicas blocks every drain, and with it every upgrade of the nodes",
    remedy="lower minAvailable below the replicas, or set maxUnavailable: 1",
    check=_check,
)
