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
    why="Loading takes minutes; without a startup probe the liveness probe kills the server while it loads, for ever",
    remedy="give every container with ports a startupProbe with a budget for loading the model",
    subject=PODS,
    check=_check,
)
