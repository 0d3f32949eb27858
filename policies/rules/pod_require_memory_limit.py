"""Containers have a memory limit."""

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
        yield found(request, "is zero")


RULE = Rule(
    id="pod-require-memory-limit",
    title="Containers have a memory limit",
    severity=Severity.HIGH,
    refs=(
        "NSA-CISA: resource policies",
        "inference",
    ),
    why="Without a limit, a server that runs out of memory takes the other pods of its node with it",
    remedy="set resources.limits.memory on every container, or on the pod; the default of the request is the limit",
    subject=CONTAINERS,
    check=_check,
)
