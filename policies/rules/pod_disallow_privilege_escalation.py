"""No process gains more privileges than its parent."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    field = container.at("securityContext", "allowPrivilegeEscalation")
    if field.flag() is not False:
        yield found(field, "is not false")


RULE = Rule(
    id="pod-disallow-privilege-escalation",
    title="No process gains more privileges than its parent",
    severity=Severity.HIGH,
    refs=(
        "PSS restricted: Privilege Escalation",
        "CIS EKS 4.2.5",
    ),
    why="A setuid program in the image would undo every other restriction",
    remedy="set securityContext.allowPrivilegeEscalation: false on every container",
    subject=CONTAINERS,
    check=_check,
)
