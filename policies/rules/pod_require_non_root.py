"""Containers run as a user other than root."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    whole = pod.at("securityContext")
    if whole.at("runAsUser").number() == 0:
        yield found(whole.at("runAsUser"), "is root")
    for container in pod.containers:
        own = container.at("securityContext")
        if own.at("runAsUser").number() == 0:
            yield found(own.at("runAsUser"), "is root")
        decides = own.at("runAsNonRoot")
        if decides.absent and pod.inherits:
            decides = whole.at("runAsNonRoot")
        if decides.flag() is not True:
            yield found(decides, "is not true")


RULE = Rule(
    id="pod-require-non-root",
    title="Containers run as a user other than root",
    severity=Severity.HIGH,
    refs=(
        "PSS restricted: Running as Non-root",
        "CIS EKS 4.2.6",
        "NSA-CISA: non-root containers",
    ),
    why="A process that escapes a container as root is root on the node",
    remedy="set securityContext.runAsNonRoot: true and a runAsUser above 0 on the pod",
    subject=PODS,
    check=_check,
)
