"""Roles cannot escalate privileges."""

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
                yield found(verb, "lets its subjects escalate their privileges")
    yield from (found(place, power) for place, power in powers(role))
    for selector in role.at("aggregationRule", "clusterRoleSelectors").each():
        if not names(selector):
            yield found(selector, "aggregates the permissions of every cluster role")


RULE = Rule(
    id="rbac-disallow-escalation",
    title="Roles cannot escalate privileges",
    severity=Severity.CRITICAL,
    refs=(
        "CIS EKS 4.1.8",
        "CKV_K8S_157",
        "CKV_K8S_158",
        "NSA-CISA: RBAC",
    ),
    why=(
        "The verbs escalate, bind and impersonate amount to cluster-admin. So do the rights to run pods with any account and to"
        " write roles or webhooks"
    ),
    remedy=(
        "remove the verbs escalate, bind and impersonate, and the rights to write pods, workloads, Secrets, roles, network "
        "policies, webhooks and certificates; list objects that an operator updates under resourceNames"
    ),
    subject=ROLES,
    check=_check,
)
