"""AWS IAM policies and roles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inferplan.policies.engine.fields import UNKNOWN, Field
from inferplan.policies.engine.resource import Resource, Subject, objects
from inferplan.policies.engine.rule import Parameters, Severity, Violations, parameter, resource_rule, violation, violations
from inferplan.policies.iam.arns import action_like, is_wild, names_every_resource, overlaps
from inferplan.policies.iam.documents import BUCKET_POLICIES, DOCUMENTS, GRANTS, KEYS, Statement, document_of, sources_of, statements
from inferplan.policies.subjects.tables import document

BROAD = re.compile(r"/(AdministratorAccess|PowerUserAccess|IAMFullAccess|\w+FullAccess)\Z")
# Wildcards for all of these verbs together allow every action of a service.
VERBS = ("Get", "Put", "Delete", "List")
ROLE = "aws:iam:Role"
ATTACHMENTS = tuple(f"aws:iam:{owner}PolicyAttachment" for owner in ("", "Role", "User", "Group"))
FILE_SYSTEM = "aws:efs:FileSystemPolicy"
MADE_WITH_IT = {"aws:efs/fileSystem:FileSystem", "aws:efs/accessPoint:AccessPoint"}
UNLIMITED_ACTIONS = [
    *("autoscaling:Describe*", "cloudwatch:PutMetricData", "ec2:Describe*", "ecr:GetAuthorizationToken", "eks:ListClusters"),
    *("elasticloadbalancing:Describe*", "s3:ListAllMyBuckets", "sts:GetCallerIdentity", "xray:GetSampling*"),
    *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
]
# Conditions that limit which rights a principal can give.
LIMITS = ("iam:policyarn", "iam:permissionsboundary")
FEDERATED = "sts:AssumeRoleWithWebIdentity"
# Services that act for every AWS account unless the statement limits it ("The confused deputy problem", read 2026-11-22).
ACTING_SERVICES = ("s3", "sns", "sqs")
ACCOUNT = re.compile(r"(?:arn:[^:]*:iam::)?([0-9]{12})(?::root)?")


@resource_rule(objects(ROLE, *ATTACHMENTS), Severity.CRITICAL, "CIS AWS 1.16; CKV_AWS_274")
def iam_disallow_broad_managed_policies(holder: Resource, _: Parameters) -> Violations:
    """No role has a broad managed policy.
    Why: A managed policy such as AmazonS3FullAccess gives a pod every bucket of the account.
    Remedy: attach your own policy that names actions and resources, for example s3:GetObject on the prefix of one bucket.
    """
    policies = (holder.at("policyArn"), *holder.at("managedPolicyArns").each())
    yield from violations(policies, lambda arn: BROAD.search(arn.text()), "gives full access to one or more services")


@resource_rule(DOCUMENTS, Severity.CRITICAL, "CIS AWS 1.16; Security Hub IAM.1; CKV_AWS_63")
def iam_disallow_wildcard_actions(field: Field, _: Parameters) -> Violations:
    """IAM policies name their actions.
    Why: A wildcard also allows every action that AWS adds later.
    Remedy: list the actions, for example s3:GetObject.
    """
    for statement in statements(field):
        if statement.effect == "Allow" and _is_every_action(statement.actions):
            yield violation(statement.field, "allows every action of a service")
        if statement.effect == "Allow" and "NotAction" in statement.raw:
            yield violation(statement.field, "allows every action except some")


def _is_every_action(actions: list[str]) -> bool:
    names = [action.rpartition(":")[2] for action in actions]
    services = {action.lower().partition(":")[0] for action in actions if is_wild(action)}
    all_verbs = any(all(any(overlaps(each, f"{service}:{verb}Zzzz") for each in actions) for verb in VERBS) for service in services)
    return all_verbs or any(not name.strip("*?") and "*" in name for name in names)


def _policies(resource: Resource) -> Iterator[tuple[Resource, Field]]:
    # An EFS policy is one text, so the ARN of a new file system makes all of it unknown until the update, which checks it.
    is_unknown = resource.kind == FILE_SYSTEM and resource.inputs.get("policy") is UNKNOWN
    if not is_unknown or not sources_of(resource, "policy") or sources_of(resource, "policy") - MADE_WITH_IT:
        yield resource, resource.at("assumeRolePolicy") if resource.kind == ROLE else document_of(resource)


@resource_rule(Subject("principals", frozenset([ROLE, *GRANTS.kinds]), _policies), Severity.CRITICAL, "CKV_AWS_60; Security Hub IAM")
def iam_disallow_wildcard_principal(holder: tuple[Resource, Field], _: Parameters) -> Violations:
    """Roles and resource policies name their principals.
    Why: If anyone is trusted, every AWS account can use the role, the key or the secret.
    Remedy: name the service, the account or the OIDC provider as Principal, and for a provider the subject with StringEquals on its :sub;
    limit a wildcard with a condition that strangers fail (aws:PrincipalOrgID, aws:SourceAccount, without IfExists).
    """
    resource, field = holder
    allowing = [each for each in statements(field) if each.effect == "Allow"]
    for statement in allowing:
        if resource.kind == ROLE:
            yield from _trust_violations(statement)
        elif statement.is_public():
            # s3-disallow-public-policy checks buckets.
            if resource.kind not in BUCKET_POLICIES:
                yield violation(statement.field, "allows any principal")
        elif "Service" in statement.kinds_of_principals and resource.kind.split(":")[1] in ACTING_SERVICES and not statement.is_narrow():
            yield violation(statement.field, "allows a service on behalf of any account")
    if resource.kind != ROLE:
        yield from _allow_everything(resource, allowing)


def _trust_violations(statement: Statement) -> Violations:
    if any(each.endswith("*") for each in statement.principals) and not statement.is_narrow():
        yield violation(statement.field, "lets anyone assume the role")
    federated = "Federated" in statement.kinds_of_principals and any(overlaps(each, FEDERATED) for each in statement.actions)
    if federated and not _names_subject(statement):
        yield violation(statement.field, "lets every identity of a provider assume the role")


def _allow_everything(resource: Resource, allowing: list[Statement]) -> Violations:
    """Statements that allow every action to a principal. A key may allow its own account every action, as the default policy does."""
    wide = [each for each in allowing if "*" in {action.rpartition(":")[2] for action in each.actions} and not each.is_public()]
    owners = [match.group(1) for each in wide for principal in each.principals if (match := ACCOUNT.fullmatch(principal))]
    if not (resource.kind in KEYS and len(wide) == 1 and len(set(owners)) == 1):
        yield from (violation(each.field, "allows every action to a principal") for each in wide)


def _names_subject(statement: Statement) -> bool:
    """True if a condition names the subjects of the provider (a service account, a repository)."""
    return any(
        each.key.endswith((":sub", ":subject"))
        and each.operator in ("stringequals", "stringequalsignorecase", "stringlike")
        and not each.holds(None)
        and each.values
        and all(_is_one_subject(value, literal=each.operator != "stringlike") for value in each.values)
        for each in statement.conditions()
    )


def _is_one_subject(subject: str, *, literal: bool) -> bool:
    """True if a pattern matches one service account, or one repository's branches, tags or environments."""
    if subject.startswith("repo:"):
        _, repository, *rest = subject.split(":", 2)
        return not is_wild(repository) and bool(rest) and not is_wild(rest[0][:1]) and rest[0] != "pull_request"
    if literal or not is_wild(subject):
        return bool(subject)
    return not subject.startswith("system:serviceaccount:") and not is_wild(subject[:1])


@parameter("actions", UNLIMITED_ACTIONS, "Actions, or patterns of actions, that AWS cannot limit to a resource")
@resource_rule(DOCUMENTS, Severity.HIGH, "Security Hub IAM.21; CKV_AWS_355; CKV_AWS_290")
def iam_disallow_wildcard_resources(field: Field, parameters: Parameters) -> Violations:
    """IAM policies name their resources.
    Why: A model's role needs one prefix of one bucket. A wildcard gives it all of them.
    Remedy: list the ARNs; a wildcard is allowed only for the objects below a bucket's prefix.
    """
    for statement in statements(field):
        # AWS cannot limit these actions to a resource. iam-disallow-wildcard-actions checks NotAction.
        if statement.effect != "Allow" or all(
            any(action_like(each, action) for each in parameters["actions"]) for action in statement.actions
        ):
            continue
        if any(map(names_every_resource, statement.resources)) and not _is_tagged(statement):
            yield violation(statement.field, "allows actions on every resource")
        if "NotResource" in statement.raw:
            yield violation(statement.field, "allows actions on every resource except some")


def _is_tagged(statement: Statement) -> bool:
    """True if a condition limits the statement to resources with a tag or an alias."""
    return any(
        "tag/" in each.key and not each.negated and each.operator != "null" and not each.holds(None) for each in statement.conditions()
    )


@resource_rule(DOCUMENTS, Severity.CRITICAL, "CIS AWS 3; CKV_AWS_286; CKV_AWS_287; Rhino: privilege escalation")
def iam_disallow_escalation(field: Field, _: Parameters) -> Violations:
    """No policy lets its role give itself rights, or switch the audit log off.
    Why: A role that attaches policies, also to itself alone, is an administrator. One that stops a trail can act unseen.
    Remedy: remove the action; let the pipeline that applies the stack change roles, limited by the condition iam:PermissionsBoundary.
    """
    for statement in statements(field):
        if statement.effect != "Allow":
            continue
        limited = any(each.key in LIMITS and not each.holds(None) for each in statement.conditions())
        for group, problem in (
            ("granting", "lets the role change rights, its own included"),
            ("audit", "lets the role switch the audit log off"),
        ):
            actions = document("aws_access")[group]
            matches = any(overlaps(action, each) for action in statement.actions for each in actions)
            if matches and not (limited and group == "granting"):
                yield violation(statement.field, problem)
