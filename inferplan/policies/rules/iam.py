"""AWS IAM policies and roles."""

import re
from collections.abc import Iterator

from inferplan.policies.engine.fields import UNKNOWN, Field
from inferplan.policies.engine.resource import Resource, Subject
from inferplan.policies.engine.rule import Parameters, Violations, resource_rule, violation
from inferplan.policies.iam.arns import action_like, is_wild, names_every_resource, overlaps
from inferplan.policies.iam.documents import (
    BUCKET_POLICIES,
    DOCUMENTS,
    GRANTS,
    KEYS,
    Statement,
    document_of,
    has_unknown,
    sources_of,
    statements,
)
from inferplan.tables import table

# Wildcards for all of these verbs together allow every action of a service.
VERBS = ("Get", "Put", "Delete", "List")
ROLE = "aws:iam:Role"
FILE_SYSTEM = "aws:efs:FileSystemPolicy"
PROVIDER = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
MADE_WITH_IT = {"aws:efs/fileSystem:FileSystem", "aws:efs/accessPoint:AccessPoint"}
# Conditions that limit which rights a principal can give.
LIMITS = ("iam:policyarn", "iam:permissionsboundary")
FEDERATED = "sts:AssumeRoleWithWebIdentity"
# Services that act for every AWS account unless the statement limits it ("The confused deputy
# problem", read 2026-11-22).
ACTING_SERVICES = ("s3", "sns", "sqs")
ACCOUNT = re.compile(r"(?:arn:[^:]*:iam::)?([0-9]{12})(?::root)?")


@resource_rule(DOCUMENTS)
def iam_disallow_wildcard_actions(field: Field, _: Parameters) -> Violations:
    for statement in statements(field):
        if statement.effect == "Allow" and _is_every_action(statement.actions):
            yield violation(statement.field, "allows every action of a service")
        if statement.effect == "Allow" and "NotAction" in statement.raw:
            yield violation(statement.field, "allows every action except some")


def _is_every_action(actions: list[str]) -> bool:
    names = [action.rpartition(":")[2] for action in actions]
    services = {action.lower().partition(":")[0] for action in actions if is_wild(action)}
    all_verbs = any(
        all(any(overlaps(each, f"{service}:{verb}Zzzz") for each in actions) for verb in VERBS)
        for service in services
    )
    return all_verbs or any(not name.strip("*?") and "*" in name for name in names)


def _policies(resource: Resource) -> Iterator[tuple[Resource, Field]]:
    # An EFS policy is one text, so the ARN of a new file system makes all of it unknown until the
    # update, which checks it.
    is_unknown = resource.kind == FILE_SYSTEM and resource.inputs.get("policy") is UNKNOWN
    if (
        not is_unknown
        or not sources_of(resource, "policy")
        or sources_of(resource, "policy") - MADE_WITH_IT
    ):
        yield (
            resource,
            resource.at("assumeRolePolicy") if resource.kind == ROLE else document_of(resource),
        )


@resource_rule(Subject("principals", frozenset([ROLE, *GRANTS.kinds]), _policies))
def iam_disallow_wildcard_principal(holder: tuple[Resource, Field], _: Parameters) -> Violations:
    resource, field = holder
    allowing = [each for each in statements(field) if each.effect == "Allow"]
    for statement in allowing:
        if resource.kind == ROLE and _trusts_new_provider(resource, statement):
            continue
        if resource.kind == ROLE:
            yield from _trust_violations(statement)
        elif statement.is_public():
            # s3-disallow-public-policy checks buckets.
            if resource.kind not in BUCKET_POLICIES:
                yield violation(statement.field, "allows any principal")
        elif (
            "Service" in statement.kinds_of_principals
            and resource.kind.split(":")[1] in ACTING_SERVICES
            and not statement.is_narrow()
        ):
            yield violation(statement.field, "allows a service on behalf of any account")
    if resource.kind != ROLE:
        yield from _allow_everything(resource, allowing)


def _trusts_new_provider(role: Resource, statement: Statement) -> bool:
    """True if only the id of an OIDC provider that the stack creates is unknown. The update checks
    the known condition before it creates the role.
    """
    if (
        statement.kinds_of_principals != {"Federated"}
        or statement.raw.get("Action") != FEDERATED
        or not has_unknown(statement.raw)
    ):
        return False
    sources = sources_of(role, "assumeRolePolicy")
    return PROVIDER in sources and sources <= {PROVIDER, "aws:eks/cluster:Cluster"}


def _trust_violations(statement: Statement) -> Violations:
    if any(each.endswith("*") for each in statement.principals) and not statement.is_narrow():
        yield violation(statement.field, "lets anyone assume the role")
    federated = "Federated" in statement.kinds_of_principals and any(
        overlaps(each, FEDERATED) for each in statement.actions
    )
    if federated and not _names_subject(statement):
        yield violation(statement.field, "lets every identity of a provider assume the role")


def _allow_everything(resource: Resource, allowing: list[Statement]) -> Violations:
    """Statements that allow every action to a principal. A key may allow its own account every
    action, as the default policy does.
    """
    wide = [
        each
        for each in allowing
        if "*" in {action.rpartition(":")[2] for action in each.actions} and not each.is_public()
    ]
    owners = [
        match.group(1)
        for each in wide
        for principal in each.principals
        if (match := ACCOUNT.fullmatch(principal))
    ]
    if not (resource.kind in KEYS and len(wide) == 1 and len(set(owners)) == 1):
        yield from (violation(each.field, "allows every action to a principal") for each in wide)


def _names_subject(statement: Statement) -> bool:
    """True if a condition names the subjects of the provider (a service account, a repository)."""
    return any(
        each.key.endswith((":sub", ":subject"))
        and each.operator in ("stringequals", "stringequalsignorecase", "stringlike")
        and not each.holds(None)
        and each.values
        and all(
            _is_one_subject(value, literal=each.operator != "stringlike") for value in each.values
        )
        for each in statement.conditions()
    )


def _is_one_subject(subject: str, *, literal: bool) -> bool:
    """True if a pattern matches one service account, or one repository's branches, tags or
    environments.
    """
    if subject.startswith("repo:"):
        _, repository, *rest = subject.split(":", 2)
        return (
            not is_wild(repository)
            and bool(rest)
            and not is_wild(rest[0][:1])
            and rest[0] != "pull_request"
        )
    if literal or not is_wild(subject):
        return bool(subject)
    return not subject.startswith("system:serviceaccount:") and not is_wild(subject[:1])


@resource_rule(DOCUMENTS)
def iam_disallow_wildcard_resources(field: Field, parameters: Parameters) -> Violations:
    for statement in statements(field):
        # AWS cannot limit these actions to a resource. iam-disallow-wildcard-actions checks
        # NotAction.
        if statement.effect != "Allow" or all(
            any(action_like(each, action) for each in parameters["actions"])
            for action in statement.actions
        ):
            continue
        if any(map(names_every_resource, statement.resources)) and not _is_tagged(statement):
            yield violation(statement.field, "allows actions on every resource")
        if "NotResource" in statement.raw:
            yield violation(statement.field, "allows actions on every resource except some")


def _is_tagged(statement: Statement) -> bool:
    """True if a condition limits the statement to resources with a tag or an alias."""
    return any(
        "tag/" in each.key and not each.negated and each.operator != "null" and not each.holds(None)
        for each in statement.conditions()
    )


@resource_rule(DOCUMENTS)
def iam_disallow_escalation(field: Field, _: Parameters) -> Violations:
    for statement in statements(field):
        if statement.effect != "Allow":
            continue
        limited = any(
            each.key in LIMITS and not each.holds(None) for each in statement.conditions()
        )
        for group, problem in (
            ("granting", "lets the role change rights, its own included"),
            ("audit", "lets the role switch the audit log off"),
        ):
            actions = table("policies/rules/aws_access.toml")[group]
            matches = any(
                overlaps(action, each) for action in statement.actions for each in actions
            )
            if matches and not (limited and group == "granting"):
                yield violation(statement.field, problem)
