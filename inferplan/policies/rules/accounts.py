"""Other AWS accounts: who may use roles and data of the stack, and where its data goes."""

import re
from collections import Counter

from inferplan.policies.engine.fields import outline_of
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Parameters, Violations, stack_rule, violation
from inferplan.policies.iam.arns import is_wild
from inferplan.policies.iam.documents import GRANTS, Statement, document_of, statements
from inferplan.policies.subjects.tables import fields_of, path_of
from inferplan.tables import table

ROLE, ECR = "aws:iam:Role", "aws:ecr:RepositoryPolicy"
_ARN = re.compile(r"arn:[\w-]+:[\w-]*:[\w-]*:([0-9]{12}):")
_ACCOUNT = re.compile(r"(?:arn:[\w-]+:[\w-]*:[\w-]*:)?([0-9]{12})(?::.*)?")
_READS_IMAGES = {
    "ecr:batchgetimage",
    "ecr:getdownloadurlforlayer",
    "ecr:batchchecklayeravailability",
    "ecr:describeimages",
}
_LIMITS = ("aws:principalorgid", "aws:principalorgpaths", "aws:sourceaccount")


@stack_rule
def aws_restrict_other_accounts(stack: Stack, parameters: Parameters) -> Violations:
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
            paths = filter(None, _receiver(resource, own).split(","))
            for field in (field for path in paths for field in fields_of(resource, path_of(path))):
                made_here = field.unknown and resource.property_dependencies
                if not made_here and _is_other(field.text(), own):
                    yield violation(field, "gives data or access to another account")


def _receiver(resource: Resource, own: set[str]) -> str:
    """The path of the field with another account, "" if the kind has none or if it may be the
    stack's own account.
    """
    access = table("policies/rules/aws_access.toml")
    return access["receivers"].get(resource.kind, "") or (
        access["principals"].get(resource.kind, "") if own else ""
    )


def _is_made_here(resource: Resource) -> bool:
    """True if the field is unknown because another resource of the stack makes it. The update
    checks the known value.
    """
    key = (
        "assumeRolePolicy"
        if resource.kind == ROLE
        else _receiver(resource, {""}).partition(".")[0] or "policy"
    )
    return resource.at(key).unknown and bool(resource.property_dependencies.get(key))


def _own_accounts(stack: Stack, trusted: list[str]) -> set[str]:
    """The accounts in the settings, or those of the provider, or the account of most ARNs of the
    stack; none if that is not clear.
    """
    access = table("policies/rules/aws_access.toml")
    allowed: set[str] = set()
    counts: Counter[str] = Counter()
    # A principal may be of another account. It counts where nothing else names an account.
    principals: Counter[str] = Counter()
    for resource in stack:
        if resource.type == "pulumi:providers:aws":
            with stack.unreadable:
                allowed |= set(
                    re.findall(r"[0-9]{12}", str(resource.inputs.get("allowedAccountIds", "")))
                )
        elif resource.kind.startswith(("aws:", "kubernetes:")) and (
            resource.kind not in access["receivers"]
        ):
            # The grantee may be another account, but the key is the stack's own.
            is_grant = resource.kind == "aws:kms:Grant"
            texts = (
                outline_of(resource.inputs.get("keyId")) if is_grant else resource.outline
            ).texts
            arns = (text for text in texts if text.startswith("arn:"))
            weak = resource.kind in access["principals"] and not is_grant
            place = principals if weak else counts
            place.update(match.group(1) for text in arns if (match := _ARN.match(text)))
    first, second = [*(counts or principals).most_common(2), ("", 0), ("", 0)][:2]
    clear = {first[0]} if first[1] > second[1] else set()
    return set(trusted) | (allowed or clear)


def _is_other(text: str, own: set[str]) -> bool:
    match = _ACCOUNT.fullmatch(text)
    return match is not None and match.group(1) not in own


def _trusted(role: Resource, own: set[str]) -> Violations:
    """Statements that let another account take a role without an external id."""
    for statement in statements(role.at("assumeRolePolicy")):
        if (
            statement.effect != "Allow"
            or "AWS" not in statement.kinds_of_principals
            or _is_limited(statement, "sts:externalid", *_LIMITS)
        ):
            continue
        # A stack that names no account may trust a role of its own account, but no stack trusts
        # every role of it.
        if any(
            _is_other(each, own) and (own or each.endswith(":root") or each.isdigit())
            for each in statement.principals
        ):
            yield violation(
                statement.field, "lets another account take the role without an external id"
            )


def _granted(resource: Resource, own: set[str]) -> Violations:
    for statement in statements(document_of(resource)):
        if statement.effect != "Allow" or _is_limited(statement, *_LIMITS):
            continue
        if (
            resource.kind == ECR
            and {action.lower() for action in statement.actions} <= _READS_IMAGES
        ):
            continue
        if any(_is_other(each, own) for each in statement.principals):
            yield violation(statement.field, "gives data or access to another account")


def _is_limited(statement: Statement, *keys: str) -> bool:
    """True if a condition requires one of a few values of one of `keys`."""
    conditions = (
        each
        for each in statement.conditions()
        if each.key in keys and not each.negated and each.operator != "null"
    )
    return any(not each.holds(None) and not any(map(is_wild, each.values)) for each in conditions)
