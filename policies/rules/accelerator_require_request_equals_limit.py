"""Accelerator requests equal their limits."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.quantities import quantity


def _check(container: Container, _: Parameters) -> Findings:
    for _vendor, side, field in container.accelerators():
        name = str(field.keys[-1])
        limit = container.at("resources", "limits", name)
        if limit.absent or (side == "requests" and quantity(field) != quantity(limit)):
            yield found(field, "differs from the limit")


RULE = Rule(
    id="accelerator-require-request-equals-limit",
    title="Accelerator requests equal their limits",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "Kyverno check-nvidia-gpu",
    ),
    why="Kubernetes rejects a pod whose request and limit of an extended resource differ, but only when it creates the pod",
    remedy="set the accelerator under resources.limits, and under resources.requests set the same number or nothing",
    subject=CONTAINERS,
    check=_check,
)
