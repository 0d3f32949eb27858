"""Containers say how much memory they may take."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.quantities import quantity


def _check(container: Container, _: Parameters) -> Findings:
    limit, request = (container.at("resources", side, "memory") for side in ("limits", "requests"))
    if container.ephemeral or quantity(container.pod.at("resources", "limits", "memory")):
        return
    if not quantity(limit):
        yield found(limit, "is not set")
    elif not request.absent and not quantity(request):
        yield found(request, "is nothing")


RULE = Rule(
    id="pod-require-memory-limit",
    title="Containers say how much memory they may take",
    severity=Severity.HIGH,
    refs=(
        "NSA-CISA: resource policies",
        "inference",
    ),
    why="Without a limit a model that outgrows its memory takes the node's other models with it",
    remedy="set resources.limits.memory on every container, or on the pod; a request that is not given is the limit",
    subject=CONTAINERS,
    check=_check,
)
