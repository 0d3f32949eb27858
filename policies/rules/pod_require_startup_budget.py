"""Model servers have enough time to start."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.timing import budget_of


def _check(pod: PodTemplate, given: Parameters) -> Findings:
    for container in pod.servers:
        probe = container.at("startupProbe")
        if container.accelerated and not probe.absent and budget_of(probe) < given["minimumSeconds"]:
            yield found(probe, f"gives less than {given['minimumSeconds']:g} seconds")


RULE = Rule(
    id="pod-require-startup-budget",
    title="Model servers have enough time to start",
    severity=Severity.HIGH,
    refs=("inference",),
    why="If the startup probe ends before the model is loaded, Kubernetes restarts the server in a loop",
    remedy="raise startupProbe.failureThreshold x periodSeconds",
    subject=PODS,
    check=_check,
    parameters={
        "minimumSeconds": Parameter(
            default=600,
            description="Minimum time in seconds that a server with accelerators has to start",
            schema={"type": "number", "minimum": 1},
        )
    },
)
