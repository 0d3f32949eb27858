"""Roles say who may assume them."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.documents import statements
from policies.subjects.objects import objects


def _check(role: Resource, _: Parameters) -> Findings:
    for statement in statements(role.at("assumeRolePolicy")):
        if statement.effect == "Allow" and "*" in statement.principals:
            yield found(statement.field, "lets everybody assume the role")


RULE = Rule(
    id="iam-disallow-wildcard-principal",
    title="Roles say who may assume them",
    severity=Severity.CRITICAL,
    refs=(
        "CKV_AWS_60",
        "Security Hub IAM",
    ),
    why="A trust of everybody hands the role to every account of AWS",
    remedy="name the service, the account or the OIDC provider as Principal",
    subject=objects("aws:iam:Role"),
    check=_check,
)
