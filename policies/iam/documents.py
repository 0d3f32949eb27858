"""IAM policy documents, as JSON text or as maps, statement by statement, and the resources that carry them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from policies.engine.fields import UNKNOWN, Field, MalformedFieldError, UnknownFieldError
from policies.engine.resource import Resource, Subject
from policies.iam import strangers
from policies.iam.conditions import Condition, parse_operator

_KINDS = frozenset(["aws:iam:Policy", "aws:iam:RolePolicy", "aws:iam:UserPolicy", "aws:iam:GroupPolicy", "aws:iam:Role"])
# Resources of a stack whose ARN a statement may wait for, with the service that their actions are of.
_MAKERS = {"aws:kms/key:Key": "kms"}


class Statement(NamedTuple):
    """One statement, at `field`. Its lists raise for what is unknown only after what is known, so that a violation next to it is found."""

    field: Field
    raw: dict[str, Any]

    @property
    def effect(self) -> str:
        """`Allow` or `Deny`."""
        return self.field.at("Effect").text()

    @property
    def actions(self) -> list[str]:
        """The actions, empty where the statement has only NotAction."""
        return _words_at(self.field.at("Action"))

    @property
    def resources(self) -> list[str]:
        """The resources, empty where the statement has only NotResource."""
        return _words_at(self.field.at("Resource"))

    @property
    def principals(self) -> list[str]:
        """The principals of any kind. A statement with NotPrincipal includes any principal."""
        if "NotPrincipal" in self.raw:
            return ["*"]
        principal = self.raw.get("Principal")
        if isinstance(principal, dict):
            return [word for value in principal.values() for word in _words(value, self.field.at("Principal"))]
        return _words_at(self.field.at("Principal"))

    @property
    def kinds_of_principals(self) -> frozenset[str]:
        """`AWS`, `Service`, `Federated`: what kinds of principals the statement names."""
        principal = self.raw.get("Principal")
        return frozenset(principal) if isinstance(principal, dict) else frozenset(["AWS"] if principal else [])

    def conditions(self) -> Iterator[Condition]:
        """Each key of the condition block, with its operator and values."""
        listed = self.raw.get("Condition") or {}
        for operator, tests in listed.items() if isinstance(listed, dict) else ():
            for key, value in tests.items() if isinstance(tests, dict) else ():
                yield Condition(parse_operator(operator), key.lower(), tuple(_words(value, self.field.at("Condition"))))

    def is_narrow(self) -> bool:
        """True if the conditions exclude strangers: principals of another account, organization or network."""
        return not strangers.pass_(self.conditions())

    def is_public(self) -> bool:
        """True if the statement allows any principal."""
        return self.effect == "Allow" and "*" in self.principals and not self.is_narrow()


def listed(document: Resource) -> Iterator[Field]:
    """The statements of a resource's documents, each by itself: an unknown of one hides nothing of another. Raises FieldError."""
    if document.kind == "aws:iam:Role":
        documents = [each.at("policy") for each in document.at("inlinePolicies").each()]
    else:
        documents = [document.at("policy")]
    service = _made_by(document)
    for place in documents:
        yield from (_with_siblings(each, service) for each in _parsed(place))


def sources_of(resource: Resource, key: str) -> set[str]:
    """The types of the stack's resources that the value of `key` is made of."""
    return {urn.rpartition("::")[0].rpartition("$")[2].rpartition("::")[2] for urn in resource.property_dependencies.get(key, ())}


def _made_by(document: Resource) -> str:
    """The service of the stack's own resources that the unknown parts of a document come from; "" for several, or none."""
    types = sources_of(document, "policy")
    return _MAKERS.get(types.pop(), "") if len(types) == 1 else ""


def _with_siblings(statement: Field, service: str) -> Field:
    """`statement` with an unknown Resource read as one ARN of `service`: what the same update makes has one, and no wildcard in it.

    Only where the statement allows no other service. The value is judged again when the update knows it.
    """
    raw = statement.value
    if not service or not isinstance(raw, dict) or raw.get("Resource") is not UNKNOWN:
        return statement
    try:
        elsewhere = any(not each.startswith(f"{service}:") for each in Statement(statement, raw).actions)
    except UnknownFieldError:
        elsewhere = True
    if elsewhere:
        return statement
    return Field({**raw, "Resource": f"arn:aws:{service}:::made-by-this-stack"}, statement.above, statement.keys[-1])


DOCUMENTS = Subject("document", _KINDS, listed)
"""The fields with documents that grant permissions to their holders, including the inline policies of a role."""


def statements(field: Field) -> Iterator[Statement]:
    """The statements of the document, or the one statement, at `field`: those that are known first. Raises FieldError."""
    listed = [field] if isinstance(field.value, dict) and "Statement" not in field.value else list(_parsed(field))
    for each in sorted(listed, key=lambda each: _has_unknown(each.value)):
        yield Statement(each, each.value)


def _parsed(field: Field) -> Iterator[Field]:
    """The statements of the document at `field`, with the places that they have in it. Raises FieldError."""
    text = field.value
    if text is None:
        return
    try:
        document = json.loads(text) if isinstance(text, str) else text
        listed = document["Statement"]
    except (ValueError, KeyError, TypeError):
        raise MalformedFieldError(field, "a policy document") from None
    place = Field(listed if isinstance(listed, list) else [listed], field, "Statement")
    for each in place.each():
        if not isinstance(each.value, dict):
            raise MalformedFieldError(field, "a policy document")
        yield each


_NOWHERE = Field(UNKNOWN)


class _Words(list[str]):
    """The known words. After the last one it raises `unread`, the error of those that could not be read."""

    def __init__(self, known: list[str], unread: UnknownFieldError | None) -> None:
        super().__init__(known)
        self._unread = unread

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        if self._unread is not None:
            raise self._unread

    def __contains__(self, word: object) -> bool:
        return any(each == word for each in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _words_at(field: Field) -> list[str]:
    """The words at `field`, a list or a single one. Raises UnknownFieldError where nothing of it is known."""
    value = field.value
    known: list[str] = []
    unread: UnknownFieldError | None = None
    for each in field.each() if isinstance(value, list) else [field]:
        try:
            known += _words(each.value, each)
        except UnknownFieldError as error:
            unread = unread or error
    return _Words(known, unread)


def _words(value: Any, at: Field = _NOWHERE) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [word for each in value for word in _words(each, at)]
    if _has_unknown(value):
        raise UnknownFieldError(at)
    # JSON says true where IAM compares text.
    return [value] if isinstance(value, str) else [json.dumps(value)]


def _has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_unknown(each) for each in value.values())
    if isinstance(value, list):
        return any(_has_unknown(each) for each in value)
    return value is UNKNOWN


BUCKETS = ("aws:s3:Bucket", "aws:s3:BucketV2")
BUCKET_POLICIES = ("aws:s3:BucketPolicy", *BUCKETS)
# Where the policy of each kind stands.
_PLACES = {
    **dict.fromkeys(BUCKET_POLICIES, "policy"),
    "aws:s3:AccessPoint": "policy",
    "aws:s3control:AccessPointPolicy": "policy",
    "aws:s3control:ObjectLambdaAccessPointPolicy": "policy",
    "aws:s3control:MultiRegionAccessPointPolicy": "policy",
    "aws:kms:Key": "policy",
    "aws:kms:KeyPolicy": "policy",
    "aws:kms:ExternalKey": "policy",
    "aws:kms:ReplicaKey": "policy",
    "aws:efs:FileSystemPolicy": "policy",
    "aws:ecr:RepositoryPolicy": "policy",
    "aws:ecr:RegistryPolicy": "policy",
    "aws:ecrpublic:RepositoryPolicy": "policy",
    "aws:secretsmanager:Secret": "policy",
    "aws:secretsmanager:SecretPolicy": "policy",
    "aws:sqs:Queue": "policy",
    "aws:sqs:QueuePolicy": "policy",
    "aws:sns:Topic": "policy",
    "aws:sns:TopicPolicy": "policy",
    "aws:backup:VaultPolicy": "policy",
    "aws:cloudwatch:EventBusPolicy": "policy",
    "aws:cloudwatch:LogResourcePolicy": "policyDocument",
    "aws:dynamodb:ResourcePolicy": "policy",
    "aws:glacier:Vault": "accessPolicy",
    "aws:lambda:LayerVersionPermission": "policy",
    "aws:opensearch:DomainPolicy": "accessPolicies",
    "aws:apigateway:RestApiPolicy": "policy",
}
KEYS = ("aws:kms:Key", "aws:kms:KeyPolicy", "aws:kms:ExternalKey", "aws:kms:ReplicaKey")


def document_of(resource: Resource) -> Field:
    """The field with the policy of a resource."""
    return resource.at(_PLACES[resource.kind])


GRANTS = Subject("grant", frozenset(_PLACES), lambda resource: (document_of(resource),))
"""The policies of resources, each as one part."""
