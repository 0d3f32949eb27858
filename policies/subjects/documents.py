"""IAM policy documents, as JSON text or as maps, statement by statement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from policies.engine.fields import UNKNOWN, Field, MalformedFieldError, UnknownFieldError
from policies.engine.resource import Resource, Subject

_KINDS = frozenset(["aws:iam:Policy", "aws:iam:RolePolicy", "aws:iam:UserPolicy", "aws:iam:GroupPolicy", "aws:iam:Role"])
# Condition keys that hold a request to somebody or somewhere, whatever the principal says.
_NARROWING = frozenset(
    [
        "aws:principalarn",
        "aws:principalaccount",
        "aws:principalorgid",
        "aws:principalorgpaths",
        "aws:sourcearn",
        "aws:sourceaccount",
        "aws:sourceorgid",
        "aws:sourcevpc",
        "aws:sourcevpce",
        "aws:sourceip",
        "aws:userid",
        "s3:dataaccesspointarn",
        "s3:dataaccesspointaccount",
    ]
)
_POSITIVE = ("stringequals", "stringlike", "arnequals", "arnlike", "ipaddress")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. `field` is the place of the whole document, since its text has no places inside."""

    field: Field
    raw: dict[str, Any]

    @property
    def effect(self) -> str:
        """`Allow` or `Deny`."""
        return str(self.raw.get("Effect", ""))

    @property
    def actions(self) -> list[str]:
        """The actions, empty where the statement has only NotAction."""
        return _words(self.raw.get("Action"))

    @property
    def resources(self) -> list[str]:
        """The resources, empty where the statement has only NotResource."""
        return _words(self.raw.get("Resource"))

    @property
    def principals(self) -> list[str]:
        """Who is meant, whatever kind of principal it is; everybody where the statement only says who is not."""
        if "NotPrincipal" in self.raw:
            return ["*"]
        principal = self.raw.get("Principal")
        if isinstance(principal, dict):
            return [word for value in principal.values() for word in _words(value)]
        return _words(principal)

    def conditions(self) -> Iterator[tuple[str, str, list[str]]]:
        """Operator without `ForAnyValue:` and `IfExists`, key and values of each condition, the first two in small letters."""
        listed = self.raw.get("Condition") or {}
        for operator, tests in listed.items() if isinstance(listed, dict) else ():
            for key, value in tests.items() if isinstance(tests, dict) else ():
                yield operator.lower().rpartition(":")[2].removesuffix("ifexists"), key.lower(), _words(value)

    def is_narrow(self) -> bool:
        """Whether a condition holds the statement to some account, organisation, network or resource."""
        return any(
            operator.startswith(_POSITIVE) and key in _NARROWING and values and not any(_is_all(value) for value in values)
            for operator, key, values in self.conditions()
        )


def _is_all(value: str) -> bool:
    return not value.strip("*:?") or value in ("0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1")


def listed(document: Resource) -> Iterator[Field]:
    """The fields of a resource that hold documents. Raises FieldError."""
    if document.kind == "aws:iam:Role":
        yield from (each.at("policy") for each in document.at("inlinePolicies").each())
    else:
        yield document.at("policy")


DOCUMENTS = Subject("document", _KINDS, listed)
"""The places of documents that give rights to whoever holds them; a role's inline ones among them."""


def statements(field: Field) -> Iterator[Statement]:
    """The statements of the document at `field`. Raises UnknownFieldError where any part is unknown, MalformedFieldError for no document."""
    text = field.value
    if text is None:
        return
    try:
        document = json.loads(text) if isinstance(text, str) else text
        listed = document["Statement"]
    except (ValueError, KeyError, TypeError):
        raise MalformedFieldError(field, "a policy document") from None
    for each in listed if isinstance(listed, list) else [listed]:
        if _has_unknown(each):
            raise UnknownFieldError(field)
        if not isinstance(each, dict):
            raise MalformedFieldError(field, "a policy document")
        yield Statement(field, each)


def _words(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [word for each in value for word in _words(each)]
    # JSON says true where IAM compares text.
    return [value] if isinstance(value, str) else [json.dumps(value)]


def _has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_unknown(each) for each in value.values())
    if isinstance(value, list):
        return any(_has_unknown(each) for each in value)
    return value is UNKNOWN
