"""Roles say who may assume them."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.documents import Statement, statements
from policies.subjects.objects import objects


def _check(role: Resource, _: Parameters) -> Findings:
    for statement in statements(role.at("assumeRolePolicy")):
        if statement.effect != "Allow":
            continue
        if "*" in statement.principals and not statement.is_narrow():
            yield found(statement.field, "lets everybody assume the role")
        if "sts:AssumeRoleWithWebIdentity" in statement.actions and not _names_subject(statement):
            yield found(statement.field, "lets everybody of an identity provider assume the role")


def _names_subject(statement: Statement) -> bool:
    """Whether a condition says which subject (a service account, a repository) may come from the provider."""
    return any(
        operator.startswith("string") and "not" not in operator and key.endswith((":sub", ":subject")) and values and "*" not in values
        for operator, key, values in statement.conditions()
    )


RULE = Rule(
    id="iam-disallow-wildcard-principal",
    title="Roles say who may assume them",
    severity=Severity.CRITICAL,
    refs=(
        "CKV_AWS_60",
        "Security Hub IAM",
    ),
    why="A trust of everybody hands the role to every account of AWS",
    remedy="name the service, the account or the OIDC provider as Principal, and for the provider the subject, by StringEquals on its :sub",
    subject=objects("aws:iam:Role"),
    check=_check,
)
