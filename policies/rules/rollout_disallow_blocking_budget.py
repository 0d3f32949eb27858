"""Disruption budgets let nodes drain."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(budget: Resource, _: Parameters) -> Findings:
    for name, blocking in (("maxUnavailable", ("0", "0%")), ("minAvailable", ("100%",))):
        if budget.at("spec", name).text() in blocking:
            yield found(budget.at("spec", name), "allows no disruption")


RULE = Rule(
    id="rollout-disallow-blocking-budget",
    title="Disruption budgets let nodes drain",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "Kyverno pdb-maxunavailable",
    ),
    why="A budget that allows no disruption blocks the drain of a node, and with it every upgrade",
    remedy="set maxUnavailable: 1",
    subject=objects("kubernetes:policy:PodDisruptionBudget"),
    check=_check,
)
