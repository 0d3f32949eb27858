"""Servers have a readiness probe."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for container in pod.probed:
        if not container.at("readinessProbe").value:
            yield found(container.at("readinessProbe"), "is not set")


RULE = Rule(
    id="pod-require-readiness-probe",
    title="Servers have a readiness probe",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "CKV_K8S_9",
    ),
    why="Without a readiness probe, traffic arrives while the model is still loading",
    remedy="give every container with ports a readinessProbe",
    subject=PODS,
    check=_check,
)
