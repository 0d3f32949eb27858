"""Servers have a startup probe."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for container in pod.probed:
        if not container.at("startupProbe").value:
            yield found(container.at("startupProbe"), "is not set")


RULE = Rule(
    id="pod-require-startup-probe",
    title="Servers have a startup probe",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Loading a model takes minutes. Without a startup probe the liveness probe restarts the server before it is ready, indefinitely",
    remedy="give every container with ports a startupProbe with enough time to load the model",
    subject=PODS,
    check=_check,
)
