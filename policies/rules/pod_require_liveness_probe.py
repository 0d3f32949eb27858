"""Servers have a liveness probe."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for container in pod.probed:
        if not container.at("livenessProbe").value:
            yield found(container.at("livenessProbe"), "is not set")


RULE = Rule(
    id="pod-require-liveness-probe",
    title="Servers have a liveness probe",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "CKV_K8S_8",
    ),
    why="An engine that lost its accelerator hangs without exiting. Only a liveness probe restarts it",
    remedy="give every container with ports a livenessProbe",
    subject=PODS,
    check=_check,
)
