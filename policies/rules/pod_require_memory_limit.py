"""Containers say how much memory they may take."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.quantities import quantity


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for container in pod.containers:
        for side in ("requests", "limits"):
            field = container.at("resources", side, "memory")
            if not quantity(field):
                yield found(field, "is not set")


RULE = Rule(
    id="pod-require-memory-limit",
    title="Containers say how much memory they may take",
    severity=Severity.HIGH,
    refs=(
        "NSA-CISA: resource policies",
        "inference",
    ),
    why="Without a limit a model that outgrows its memory takes the node's other models with it",
    remedy="set resources.requests.memory and resources.limits.memory on every container",
    subject=PODS,
    check=_check,
)
