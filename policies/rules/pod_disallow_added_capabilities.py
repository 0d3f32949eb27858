"""Containers take no capability back."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    for field in container.at("securityContext", "capabilities", "add").each():
        if field.text() != "NET_BIND_SERVICE":
            yield found(field, "adds a capability that restricted pods may not have")


RULE = Rule(
    id="pod-disallow-added-capabilities",
    title="Containers take no capability back",
    severity=Severity.HIGH,
    refs=(
        "PSS restricted: Capabilities",
        "CIS EKS 4.2.8",
    ),
    why="SYS_NICE and its like are asked for by samples, and open the node to the pod",
    remedy="remove securityContext.capabilities.add; only NET_BIND_SERVICE may stay",
    subject=CONTAINERS,
    check=_check,
)
