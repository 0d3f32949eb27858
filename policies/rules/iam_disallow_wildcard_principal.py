"""Roles and resource policies name their principals."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.engine.fields import UNKNOWN, Field
from policies.engine.resource import Resource, Subject
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.iam.arns import is_wild, overlaps
from policies.subjects.documents import Statement, sources_of, statements
from policies.subjects.grants import BUCKET_POLICIES, GRANTS, KEYS, document_of

ROLE = "aws:iam:Role"
FILE_SYSTEM = "aws:efs:FileSystemPolicy"
MADE_WITH_IT = {"aws:efs/fileSystem:FileSystem", "aws:efs/accessPoint:AccessPoint"}
FEDERATED = "sts:AssumeRoleWithWebIdentity"
# Services that act for any account of AWS unless the statement says for which ("The confused deputy problem", read 2026-11-22).
DEPUTIES = ("s3", "sns", "sqs")
ACCOUNT = re.compile(r"(?:arn:[^:]*:iam::)?([0-9]{12})(?::root)?")


def _check(holder: tuple[Resource, Field], _: Parameters) -> Findings:
    resource, place = holder
    listed = [each for each in statements(place) if each.effect == "Allow"]
    for statement in listed:
        if resource.kind == ROLE:
            yield from _trust(statement)
        elif statement.is_public():
            # Buckets have a rule of their own for the public.
            if resource.kind not in BUCKET_POLICIES:
                yield found(statement.field, "allows any principal")
        elif "Service" in statement.kinds_of_principals and resource.kind.split(":")[1] in DEPUTIES and not statement.is_narrow():
            yield found(statement.field, "allows a service on behalf of any account")
    if resource.kind != ROLE:
        yield from _everything(resource, listed)


def _trust(statement: Statement) -> Findings:
    if any(each.endswith("*") for each in statement.principals) and not statement.is_narrow():
        yield found(statement.field, "lets anyone assume the role")
    federated = "Federated" in statement.kinds_of_principals and any(overlaps(each, FEDERATED) for each in statement.actions)
    if federated and not _names_subject(statement):
        yield found(statement.field, "lets every identity of a provider assume the role")


def _everything(resource: Resource, listed: list[Statement]) -> Findings:
    """Statements that give a whole service to another principal. The default statement of a key for its own account is allowed."""
    wide = [each for each in listed if "*" in {action.rpartition(":")[2] for action in each.actions} and not each.is_public()]
    owners = [match.group(1) for each in wide for principal in each.principals if (match := ACCOUNT.fullmatch(principal))]
    if resource.kind in KEYS and len(wide) == 1 and len(set(owners)) == 1:
        return
    for each in wide:
        yield found(each.field, "allows every action to a principal")


def _names_subject(statement: Statement) -> bool:
    """True if a condition says which subject (a service account, a repository) may come from the provider."""
    return any(
        each.key.endswith((":sub", ":subject"))
        and each.operator.name in ("stringequals", "stringequalsignorecase", "stringlike")
        and not each.holds(None)
        and each.values
        and all(_is_one(value, literal=each.operator.name != "stringlike") for value in each.values)
        for each in statement.conditions()
    )


def _is_one(subject: str, *, literal: bool) -> bool:
    """True if a pattern is one service account, or a branch, tag or environment of one repository."""
    if subject.startswith("repo:"):
        _, repository, *rest = subject.split(":", 2)
        return not is_wild(repository) and bool(rest) and not is_wild(rest[0][:1]) and rest[0] != "pull_request"
    if literal or not is_wild(subject):
        return bool(subject)
    return not subject.startswith("system:serviceaccount:") and not is_wild(subject[:1])


def _holders(resource: Resource) -> Iterator[tuple[Resource, Field]]:
    # EFS takes a policy as text alone, so the ARNs of a new file system leave all of it unknown until the update, which judges it.
    waits = resource.kind == FILE_SYSTEM and resource.inputs.get("policy") is UNKNOWN
    if not waits or not sources_of(resource, "policy") or sources_of(resource, "policy") - MADE_WITH_IT:
        yield resource, resource.at("assumeRolePolicy") if resource.kind == ROLE else document_of(resource)


RULE = Rule(
    id="iam-disallow-wildcard-principal",
    title="Roles and resource policies name their principals",
    severity=Severity.CRITICAL,
    refs=(
        "CKV_AWS_60",
        "Security Hub IAM",
    ),
    why="If anyone is trusted, every AWS account can use the role, the key or the secret",
    remedy=(
        "name the service, the account or the OIDC provider as Principal, and for a provider the subject with StringEquals on "
        "its :sub; limit a wildcard with a condition that strangers fail (aws:PrincipalOrgID, aws:SourceAccount, without "
        "IfExists)"
    ),
    subject=Subject("principals", frozenset([ROLE, *GRANTS.kinds]), _holders),
    check=_check,
)
