"""Containers request CPU."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.quantities import quantity


def _check(container: Container, _: Parameters) -> Findings:
    request, limit = (container.at("resources", side, "cpu") for side in ("requests", "limits"))
    if container.ephemeral or quantity(container.pod.at("resources", "requests", "cpu")):
        return
    # Kubernetes takes the limit where no request is given.
    if not quantity(limit if request.absent else request):
        yield found(request, "is not set")


RULE = Rule(
    id="pod-require-cpu-request",
    title="Containers request CPU",
    severity=Severity.MEDIUM,
    refs=(
        "NSA-CISA: resource policies",
        "inference",
    ),
    why=(
        "Without a CPU request the server cannot keep its accelerator busy when the node is busy. A CPU limit is not required, "
        "because it throttles"
    ),
    remedy="set resources.requests.cpu on every container, or on the pod",
    subject=CONTAINERS,
    check=_check,
)
