"""Containers say how much CPU they need."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.quantities import quantity


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for container in pod.containers:
        if not quantity(container.at("resources", "requests", "cpu")):
            yield found(container.at("resources", "requests", "cpu"), "is not set")


RULE = Rule(
    id="pod-require-cpu-request",
    title="Containers say how much CPU they need",
    severity=Severity.MEDIUM,
    refs=(
        "NSA-CISA: resource policies",
        "inference",
    ),
    why="A server without a CPU request starves its accelerator as soon as the node is busy; a CPU limit is not asked for, it throttles",
    remedy="set resources.requests.cpu on every container",
    subject=PODS,
    check=_check,
)
