"""Containers add no capability."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    for field in container.at("securityContext", "capabilities", "add").each():
        if field.text() != "NET_BIND_SERVICE":
            yield found(field, "adds a capability that the restricted Pod Security Standard forbids")


RULE = Rule(
    id="pod-disallow-added-capabilities",
    title="Containers add no capability",
    severity=Severity.HIGH,
    refs=(
        "PSS restricted: Capabilities",
        "CIS EKS 4.2.8",
    ),
    why="Capabilities such as SYS_NICE are copied from samples and give a pod power over its node",
    remedy="remove securityContext.capabilities.add; only NET_BIND_SERVICE is allowed",
    subject=CONTAINERS,
    check=_check,
)
