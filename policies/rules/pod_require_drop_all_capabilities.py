"""Containers drop all capabilities."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    field = container.at("securityContext", "capabilities", "drop")
    if "ALL" not in field.texts():
        yield found(field, "does not contain ALL")


RULE = Rule(
    id="pod-require-drop-all-capabilities",
    title="Containers drop all capabilities",
    severity=Severity.HIGH,
    refs=(
        "PSS restricted: Capabilities",
        "CIS EKS 4.2.7",
    ),
    why="The default set includes capabilities that no inference server needs, for example raw sockets",
    remedy="set securityContext.capabilities.drop: [ALL] on every container",
    subject=CONTAINERS,
    check=_check,
)
