"""Accelerators are requested as they are limited."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.quantities import quantity


def _check(container: Container, _: Parameters) -> Findings:
    for _vendor, side, field in container.accelerators():
        name = str(field.keys[-1])
        limit = container.at("resources", "limits", name)
        if limit.absent or (side == "requests" and quantity(field) != quantity(limit)):
            yield found(field, "is not what the limit says")


RULE = Rule(
    id="accelerator-require-request-equals-limit",
    title="Accelerators are requested as they are limited",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "Kyverno check-nvidia-gpu",
    ),
    why="Kubernetes refuses pods whose requests and limits of extended resources differ, only when they are created",
    remedy="give the accelerator under resources.limits, and the same number under requests or none",
    subject=CONTAINERS,
    check=_check,
)
