"""Roles do not let their holder become somebody else."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.rbac import ROLES, grants

VERBS = ("escalate", "bind", "impersonate")
APPROVALS = ("certificatesigningrequests/approval",)


def _check(role: Resource, _: Parameters) -> Findings:
    for rule in role.at("rules").each():
        for verb in rule.at("verbs").each():
            if verb.text() in VERBS:
                yield found(verb, "lets its holder take rights that it was not given")
    for _rule, place in grants(role, ("update", "patch"), APPROVALS):
        yield found(place, "lets its holder sign itself a certificate of anybody")


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
    why="escalate, bind and impersonate are cluster-admin by another name: the API server no longer asks what the holder may do itself",
    remedy="remove the verbs escalate, bind and impersonate, and approvals of certificates; an operator that hands out roles gets an exemption",
    subject=ROLES,
    check=_check,
)
