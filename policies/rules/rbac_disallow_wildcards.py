"""Roles name what they allow."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(role: Resource, _: Parameters) -> Findings:
    for rule in role.at("rules").each():
        for part in ("verbs", "resources", "apiGroups", "nonResourceURLs"):
            for field in rule.at(part).each():
                if "*" in field.text():
                    yield found(field, "is a wildcard")


RULE = Rule(
    id="rbac-disallow-wildcards",
    title="Roles name what they allow",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 4.1.3",
        "NSA-CISA: RBAC",
        "CKV_K8S_49",
    ),
    why="A wildcard also allows everything that the API adds later, and it includes Secrets",
    remedy="list verbs, resources and API groups, for example verbs: [get, list, watch]",
    subject=objects("kubernetes:rbac.authorization.k8s.io:Role", "kubernetes:rbac.authorization.k8s.io:ClusterRole"),
    check=_check,
)
