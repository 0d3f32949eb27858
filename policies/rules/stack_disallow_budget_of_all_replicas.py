"""Disruption budgets ask for fewer pods than there are."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import selecting, standing_pods
from policies.subjects.workloads import share

BUDGET = "kubernetes:policy:PodDisruptionBudget"


def _check(stack: Stack, _: Parameters) -> Findings:
    standing: dict[str, float] = {}
    for workload, pod, count in standing_pods(stack):
        for budget in selecting(stack, BUDGET, workload, pod, "spec", "selector"):
            standing[budget.urn] = standing.get(budget.urn, 0) + count
    for budget in stack.of(BUDGET):
        least, pods = budget.at("spec", "minAvailable"), max(int(standing.get(budget.urn, 0)), 1)
        if budget.urn in standing and not least.absent and share(least, pods, up=True) >= pods:
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
