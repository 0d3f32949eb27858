"""Other AWS accounts: who may use roles and data of the stack, and where its data goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Parameters, Severity, Violations, parameter, stack_rule, violation
from inferplan.policies.iam.arns import is_wild
from inferplan.policies.iam.documents import GRANTS, Statement, document_of, statements
from inferplan.policies.subjects.tables import document, entries_below

ROLE, ECR = "aws:iam:Role", "aws:ecr:RepositoryPolicy"
_ARN = re.compile(r"arn:[\w-]+:[\w-]*:[\w-]*:([0-9]{12}):")
_ACCOUNT = re.compile(r"(?:arn:[\w-]+:[\w-]*:[\w-]*:)?([0-9]{12})(?::.*)?")
_READS_IMAGES = {"ecr:batchgetimage", "ecr:getdownloadurlforlayer", "ecr:batchchecklayeravailability", "ecr:describeimages"}
_LIMITS = ("aws:principalorgid", "aws:principalorgpaths", "aws:sourceaccount")


@parameter("accounts", [], "Accounts that the stack trusts: its own, and others of the organization")
@stack_rule(Severity.HIGH, "Confused deputy problem; CKV_AWS_358; Security Hub: S3.6; IAM Access Analyzer")
def aws_restrict_other_accounts(stack: Stack, parameters: Parameters) -> Violations:
    """Roles and data of the stack stay in its account.
    Why: Another account that takes a role without an external id can be tricked into using it for a third one. Data that is copied to another
    account is out of reach of every rule here.
    Remedy: remove the account; require sts:ExternalId with StringEquals in the trust of a role; or list accounts of your organization under
    parameters.aws-restrict-other-accounts.accounts.
    """
    own = _own_accounts(stack, parameters["accounts"])
    for resource in stack:
        with stack.unreadable:
            if _is_made_here(resource):
                continue
            if resource.kind == ROLE:
                yield from _trusted(resource, own)
            elif resource.kind in GRANTS.kinds and own:
                yield from _granted(resource, own)
        with stack.unreadable:
            for field in resource.select(*path.split(".")) if (path := _receiver(resource, own)) else ():
                if _is_other(field.text(), own):
                    yield violation(field, "gives data or access to another account")


def _receiver(resource: Resource, own: set[str]) -> str:
    """The path of the field with another account, "" if the kind has none or if it may be the stack's own account."""
    table = document("aws_access")
    return table["receivers"].get(resource.kind, "") or (table["principals"].get(resource.kind, "") if own else "")


def _is_made_here(resource: Resource) -> bool:
    """True if the field is unknown because another resource of the stack makes it. The update checks the known value."""
    key = "assumeRolePolicy" if resource.kind == ROLE else _receiver(resource, {""}).partition(".")[0] or "policy"
    return resource.at(key).unknown and bool(resource.property_dependencies.get(key))


def _own_accounts(stack: Stack, trusted: list[str]) -> set[str]:
    """The accounts in the settings, or those of the provider, or the account of most ARNs of the stack; none if that is not clear."""
    others = {*document("aws_access")["receivers"], "aws:kms:Grant"}
    allowed: set[str] = set()
    counts: Counter[str] = Counter()
    for resource in stack:
        if resource.type == "pulumi:providers:aws":
            with stack.unreadable:
                allowed |= set(re.findall(r"[0-9]{12}", str(resource.inputs.get("allowedAccountIds", ""))))
        elif resource.kind.startswith(("aws:", "kubernetes:")) and resource.kind not in others:
            counts.update(match.group(1) for text in _texts(resource) if (match := _ARN.match(text)))
    first, second = [*counts.most_common(2), ("", 0), ("", 0)][:2]
    clear = {first[0]} if first[1] > second[1] else set()
    return set(trusted) | (allowed or clear)


def _texts(resource: Resource) -> Iterator[str]:
    return (field.value for _key, field in entries_below(resource.root) if not field.unknown and isinstance(field.value, str))


def _is_other(text: str, own: set[str]) -> bool:
    match = _ACCOUNT.fullmatch(text)
    return match is not None and match.group(1) not in own


def _trusted(role: Resource, own: set[str]) -> Violations:
    """Statements that let another account take a role without an external id."""
    for statement in statements(role.at("assumeRolePolicy")):
        if statement.effect != "Allow" or "AWS" not in statement.kinds_of_principals or _is_limited(statement, "sts:externalid", *_LIMITS):
            continue
        # A stack that names no account may trust a role of its own account, but no stack trusts every role of it.
        if any(_is_other(each, own) and (own or each.endswith(":root") or each.isdigit()) for each in statement.principals):
            yield violation(statement.field, "lets another account take the role without an external id")


def _granted(resource: Resource, own: set[str]) -> Violations:
    for statement in statements(document_of(resource)):
        if statement.effect != "Allow" or _is_limited(statement, *_LIMITS):
            continue
        if resource.kind == ECR and {action.lower() for action in statement.actions} <= _READS_IMAGES:
            continue
        if any(_is_other(each, own) for each in statement.principals):
            yield violation(statement.field, "gives data or access to another account")


def _is_limited(statement: Statement, *keys: str) -> bool:
    """True if a condition requires one of a few values of one of `keys`."""
    conditions = (each for each in statement.conditions() if each.key in keys and not each.negated and each.operator != "null")
    return any(not each.holds(None) and not any(map(is_wild, each.values)) for each in conditions)
