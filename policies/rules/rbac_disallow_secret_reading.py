"""No role reads every Secret of a namespace."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.rbac import CLUSTER_ROLE, ROLES, grants


def _check(role: Resource, _: Parameters) -> Findings:
    for rule, place in grants(role, ("get", "list", "watch"), ("secrets",)):
        if not rule.at("resourceNames").texts():
            yield found(
                place, "reads the Secrets of every namespace" if role.kind == CLUSTER_ROLE else "reads every Secret of the namespace"
            )


RULE = Rule(
    id="rbac-disallow-secret-reading",
    title="No role reads every Secret of a namespace",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 4.1.2",
        "KSV-0041",
        "NSA-CISA: RBAC",
    ),
    why="Secrets hold the keys of consumers, tokens of model hubs and credentials of stores. The verb list alone shows their content",
    remedy="list the Secrets under resourceNames",
    subject=ROLES,
    check=_check,
)
