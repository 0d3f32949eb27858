"""Disruption budgets require fewer pods than there are."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import serving_workloads, standing_pods
from policies.subjects.placement import matches_labels, same_namespace
from policies.subjects.pods import PodTemplate
from policies.subjects.workloads import labels_of, share, templates_of

BUDGET = "kubernetes:policy:PodDisruptionBudget"


def _check(stack: Stack, _: Parameters) -> Findings:
    for budget in stack.of(BUDGET):
        with stack.doubts:
            least = budget.at("spec", "minAvailable")
            if least.absent:
                continue
            standing = [standing_pods(stack, pod) for pod in _selected(stack, budget)]
            pods = max(int(sum(standing)), 1)
            if standing and share(least, pods, up=True) >= pods:
                yield found(least, "allows no disruption", urn=budget.urn)


def _selected(stack: Stack, budget: Resource) -> Iterator[PodTemplate]:
    """The pods that a budget guards. Raises FieldError: a workload that cannot be read may be among them."""
    for workload in serving_workloads(stack):
        if same_namespace(workload, budget):
            yield from (each for each in templates_of(workload) if matches_labels(budget.at("spec", "selector"), labels_of(each)))


RULE = StackRule(
    id="stack-disallow-budget-of-all-replicas",
    title="Disruption budgets require fewer pods than there are",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "Kyverno deployment-replicas-higher-than-pdb",
    ),
    why="A budget of all replicas blocks the drain of a node, and with it every upgrade",
    remedy="lower minAvailable below the number of replicas, or set maxUnavailable: 1",
    check=_check,
)
