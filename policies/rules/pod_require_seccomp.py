"""Containers have a seccomp profile."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate

ALLOWED = ("RuntimeDefault", "Localhost")


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    whole = pod.at("securityContext", "seccompProfile", "type")
    for container in pod.containers:
        own = container.at("securityContext", "seccompProfile", "type")
        decides = whole if own.absent and pod.inherits else own
        if decides.text() not in ALLOWED:
            yield found(decides, "is neither RuntimeDefault nor Localhost")


RULE = Rule(
    id="pod-require-seccomp",
    title="Containers have a seccomp profile",
    severity=Severity.HIGH,
    refs=(
        "PSS restricted: Seccomp",
        "CIS EKS 4.2.10",
    ),
    why="Without a profile, the container can use every system call of the kernel",
    remedy="set securityContext.seccompProfile.type: RuntimeDefault on the pod",
    subject=PODS,
    check=_check,
)
