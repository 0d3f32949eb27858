"""Containers give up every capability."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    field = container.at("securityContext", "capabilities", "drop")
    if "ALL" not in field.texts():
        yield found(field, "does not hold ALL")


RULE = Rule(
    id="pod-require-drop-all-capabilities",
    title="Containers give up every capability",
    severity=Severity.HIGH,
    refs=(
        "PSS restricted: Capabilities",
        "CIS EKS 4.2.7",
    ),
    why="The runtime's default set has rights that no inference server uses, raw sockets among them",
    remedy="set securityContext.capabilities.drop: [ALL] on every container",
    subject=CONTAINERS,
    check=_check,
)
