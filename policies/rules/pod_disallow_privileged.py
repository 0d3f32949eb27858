"""No container is privileged."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    field = container.at("securityContext", "privileged")
    if field.flag():
        yield found(field, "gives the container full control of its node")


RULE = Rule(
    id="pod-disallow-privileged",
    title="No container is privileged",
    severity=Severity.CRITICAL,
    refs=(
        "PSS baseline: Privileged Containers",
        "CIS EKS 4.2.1",
        "NSA-CISA: non-root containers",
    ),
    why="A privileged container controls its node, with every model and key on it",
    remedy="remove securityContext.privileged",
    subject=CONTAINERS,
    check=_check,
)
