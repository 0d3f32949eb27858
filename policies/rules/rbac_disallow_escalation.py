"""Roles do not let their holder become somebody else."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.isolation import names
from policies.subjects.rbac import ROLES, powers

VERBS = ("escalate", "bind", "impersonate")


def _check(role: Resource, _: Parameters) -> Findings:
    for rule in role.at("rules").each():
        for verb in rule.at("verbs").each():
            if verb.text() in VERBS:
                yield found(verb, "lets its holder take rights that it was not given")
    yield from (found(place, power) for place, power in powers(role))
    for selector in role.at("aggregationRule", "clusterRoleSelectors").each():
        if not names(selector):
            yield found(selector, "takes in the rights of every cluster role")


RULE = Rule(
    id="rbac-disallow-escalation",
    title="Roles do not let their holder become somebody else",
    severity=Severity.CRITICAL,
    refs=(
        "CIS EKS 4.1.8",
        "CKV_K8S_157",
        "CKV_K8S_158",
        "NSA-CISA: RBAC",
    ),
    why="escalate, bind and impersonate are cluster-admin by another name, and so is whoever may run pods with any account or write roles and webhooks",
    remedy="remove the verbs escalate, bind and impersonate, and the rights to write pods, workloads, Secrets, roles, network policies, webhooks and certificates; name under resourceNames what an operator updates",
    subject=ROLES,
    check=_check,
)
