"""IAM policy documents, as JSON text or as maps, statement by statement, and the resources that
carry them.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from inferplan.kube.paths import leaves
from inferplan.policies.engine.fields import UNKNOWN, Field, MalformedFieldError, UnknownFieldError
from inferplan.policies.engine.resource import Resource, Subject
from inferplan.policies.iam import strangers
from inferplan.policies.iam.conditions import Condition, parse_condition

_KINDS = frozenset(
    [
        "aws:iam:Policy",
        "aws:iam:RolePolicy",
        "aws:iam:UserPolicy",
        "aws:iam:GroupPolicy",
        "aws:iam:Role",
    ]
)
# Types of resources whose new ARN can make a statement unknown, with the service of their actions.
_ARN_SOURCES = {"aws:kms/key:Key": "kms"}
_NO_FIELD = Field(UNKNOWN)
BUCKETS = ("aws:s3:Bucket", "aws:s3:BucketV2")
BUCKET_POLICIES = ("aws:s3:BucketPolicy", *BUCKETS)
KEYS = ("aws:kms:Key", "aws:kms:KeyPolicy", "aws:kms:ExternalKey", "aws:kms:ReplicaKey")
# The key of the policy in each kind.
_POLICY_KEYS = {
    **dict.fromkeys(
        (*BUCKET_POLICIES, *KEYS, "aws:s3:AccessPoint", "aws:efs:FileSystemPolicy"), "policy"
    ),
    **{
        f"aws:s3control:{name}Policy": "policy"
        for name in ("AccessPoint", "ObjectLambdaAccessPoint", "MultiRegionAccessPoint")
    },
    **{
        f"aws:ecr{name}Policy": "policy"
        for name in (":Repository", ":Registry", "public:Repository")
    },
    **{f"aws:{name}": "policy" for name in ("secretsmanager:Secret", "sqs:Queue", "sns:Topic")},
    **{
        f"aws:{name}Policy": "policy"
        for name in ("secretsmanager:Secret", "sqs:Queue", "sns:Topic")
    },
    **{
        f"aws:{name}Policy": "policy"
        for name in (
            "backup:Vault",
            "cloudwatch:EventBus",
            "dynamodb:Resource",
            "apigateway:RestApi",
            "kinesis:Resource",
            "msk:Cluster",
            "networkfirewall:Resource",
            "vpclattice:Auth",
            "vpclattice:Resource",
        )
    },
    "aws:codeartifact:DomainPermissions": "policyDocument",
    "aws:codeartifact:RepositoryPermissionsPolicy": "policyDocument",
    "aws:s3tables:TableBucketPolicy": "resourcePolicy",
    "aws:opensearch:Domain": "accessPolicies",
    "aws:lambda:LayerVersionPermission": "policy",
    "aws:cloudwatch:LogResourcePolicy": "policyDocument",
    "aws:glacier:Vault": "accessPolicy",
    "aws:opensearch:DomainPolicy": "accessPolicies",
}


class Statement(NamedTuple):
    """One statement at `field`. Its lists raise for unknown items after the known ones, so that a
    violation in a known item is reported.
    """

    field: Field
    raw: dict[str, Any]

    @property
    def effect(self) -> str:
        """`Allow` or `Deny`."""
        return self.field.at("Effect").text()

    @property
    def actions(self) -> list[str]:
        """The actions, empty if the statement has NotAction instead."""
        return _words_at(self.field.at("Action"))

    @property
    def resources(self) -> list[str]:
        """The resources, empty if the statement has NotResource instead."""
        return _words_at(self.field.at("Resource"))

    @property
    def principals(self) -> list[str]:
        """The principals of any kind. A statement with NotPrincipal includes any principal."""
        if "NotPrincipal" in self.raw:
            return ["*"]
        principal = self.raw.get("Principal")
        if isinstance(principal, dict):
            return [
                word
                for value in principal.values()
                for word in _words(value, self.field.at("Principal"))
            ]
        return _words_at(self.field.at("Principal"))

    @property
    def kinds_of_principals(self) -> frozenset[str]:
        """The kinds of principals: `AWS`, `Service`, `Federated`."""
        principal = self.raw.get("Principal")
        return (
            frozenset(principal)
            if isinstance(principal, dict)
            else frozenset(["AWS"] if principal else [])
        )

    def conditions(self) -> Iterator[Condition]:
        """Each key of the condition block, with its operator and values."""
        block = self.raw.get("Condition")
        for operator, tests in block.items() if isinstance(block, dict) else ():
            for key, value in tests.items() if isinstance(tests, dict) else ():
                yield parse_condition(operator, key, _words(value, self.field.at("Condition")))

    def is_narrow(self) -> bool:
        """True if the conditions exclude principals of other accounts, organizations and networks."""
        return not strangers.can_pass(self.conditions())

    def is_public(self) -> bool:
        return self.effect == "Allow" and "*" in self.principals and not self.is_narrow()


def document_statements(document: Resource) -> Iterator[Field]:
    """The statements of a resource's documents. Each is one part, so an unknown in one does not
    hide a violation in another. Raises FieldError.
    """
    if document.kind == "aws:iam:Role":
        documents = [each.at("policy") for each in document.at("inlinePolicies").each()]
    else:
        documents = [document.at("policy")]
    for field in documents:
        yield from (_with_known_resource(each, document) for each in _parsed(field))


def sources_of(resource: Resource, key: str) -> set[str]:
    """The types of the resources that the property `key` depends on."""
    return {
        urn.rpartition("::")[0].rpartition("$")[2].rpartition("::")[2]
        for urn in resource.property_dependencies.get(key, ())
    }


def _with_known_resource(statement: Field, document: Resource) -> Field:
    """The statement with an unknown Resource replaced by the ARN of the one resource that makes
    it unknown, if it allows actions of that resource's service only.
    """
    raw = statement.value
    if not isinstance(raw, dict) or raw.get("Resource") is not UNKNOWN:
        return statement
    types = sources_of(document, "policy")
    service = _ARN_SOURCES.get(next(iter(types)), "") if len(types) == 1 else ""
    try:
        other_services = any(
            not each.startswith(f"{service}:") for each in Statement(statement, raw).actions
        )
    except UnknownFieldError:
        other_services = True
    if not service or other_services:
        return statement
    return Field(
        {**raw, "Resource": f"arn:aws:{service}:::made-by-this-stack"},
        statement.above,
        statement.keys[-1],
    )


DOCUMENTS = Subject("document", _KINDS, document_statements)
"""The statements that grant permissions to roles and users, including the inline policies of a
role.
"""


def statements(field: Field) -> Iterator[Statement]:
    """The statements of the document or statement at `field`, known ones first. Raises FieldError."""
    fields = (
        [field]
        if isinstance(field.value, dict) and "Statement" not in field.value
        else list(_parsed(field))
    )
    for each in sorted(fields, key=lambda each: has_unknown(each.value)):
        yield Statement(each, each.value)


def _parsed(field: Field) -> Iterator[Field]:
    """The statements of the document at `field`, as fields. Raises FieldError."""
    text = field.value
    if text is None:
        return
    try:
        document = json.loads(text) if isinstance(text, str) else text
        entries = document["Statement"]
    except (ValueError, KeyError, TypeError):
        raise MalformedFieldError(field, "a policy document") from None
    for each in Field(
        entries if isinstance(entries, list) else [entries], field, "Statement"
    ).each():
        if not isinstance(each.value, dict):
            raise MalformedFieldError(field, "a policy document")
        yield each


class _Words(list[str]):
    """The known words. Iteration raises `error` after the last one, if a word is unknown."""

    def __init__(self, known: list[str], error: UnknownFieldError | None) -> None:
        super().__init__(known)
        self._error = error

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        if self._error is not None:
            raise self._error

    def __contains__(self, word: object) -> bool:
        return any(each == word for each in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _words_at(field: Field) -> list[str]:
    """The words at `field`, a list or a single one. Raises UnknownFieldError if the whole value is
    unknown.
    """
    value = field.value
    known: list[str] = []
    first_error: UnknownFieldError | None = None
    for each in field.each() if isinstance(value, list) else [field]:
        try:
            known += _words(each.value, each)
        except UnknownFieldError as error:
            first_error = first_error or error
    return _Words(known, first_error)


def _words(value: Any, at: Field = _NO_FIELD) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [word for each in value for word in _words(each, at)]
    if has_unknown(value):
        raise UnknownFieldError(at)
    # IAM compares a JSON boolean as text.
    return [value] if isinstance(value, str) else [json.dumps(value)]


def has_unknown(value: Any) -> bool:
    return any(each is UNKNOWN for _, each in leaves(value))


def document_of(resource: Resource) -> Field:
    return resource.at(_POLICY_KEYS[resource.kind])


GRANTS = Subject("grant", frozenset(_POLICY_KEYS), lambda resource: (document_of(resource),))
"""The policies of resources."""
