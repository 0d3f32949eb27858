"""No role creates tokens of service accounts."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects
from policies.subjects.rbac import ROLES, grants

KEPT = "kubernetes:core:Secret"


def _check(role: Resource, _: Parameters) -> Findings:
    if role.kind == KEPT:
        if role.at("type").text() == "kubernetes.io/service-account-token":
            yield found(role.at("type"), "is a service account token that never expires")
        return
    for rule, place in grants(role, ("create",), ("serviceaccounts/token",)):
        if not rule.at("resourceNames").texts():
            yield found(place, "can create tokens of every service account")


RULE = Rule(
    id="rbac-disallow-token-creation",
    title="No role creates tokens of service accounts",
    severity=Severity.CRITICAL,
    refs=(
        "CIS Kubernetes 5.1.13",
        "NSA-CISA: RBAC",
    ),
    why="A token has all rights of its account until it expires, and the audit log cannot tell the two apart",
    remedy=(
        "remove create on serviceaccounts/token, or list the accounts under resourceNames; use a projected token, which "
        "expires, instead of a Secret"
    ),
    subject=objects(*ROLES.kinds, KEPT),
    check=_check,
)
