"""IAM policy documents, as JSON text or as maps, statement by statement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from policies.engine.fields import UNKNOWN, Field, MalformedFieldError, UnknownFieldError
from policies.engine.resource import Resource, Subject

_KINDS = {
    "aws:iam:Policy": ("policy",),
    "aws:iam:RolePolicy": ("policy",),
    "aws:iam:UserPolicy": ("policy",),
    "aws:iam:GroupPolicy": ("policy",),
}
DOCUMENTS = Subject("document", frozenset(_KINDS), lambda resource: (resource,))


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
        """Who is meant, whatever kind of principal it is."""
        principal = self.raw.get("Principal")
        if isinstance(principal, dict):
            return [word for value in principal.values() for word in _words(value)]
        return _words(principal)


def listed(document: Resource) -> Iterator[Field]:
    """The fields of a resource that hold documents."""
    return (document.at(*keys.split(".")) for keys in _KINDS[document.kind])


def statements(field: Field) -> Iterator[Statement]:
    """The statements of the document at `field`. Raises UnknownFieldError where any part is unknown, MalformedFieldError for no document."""
    text = field.value
    if text is None:
        return
    try:
        document = json.loads(text) if isinstance(text, str) else text
        listed = document["Statement"]
    except (ValueError, KeyError, TypeError):
        raise MalformedFieldError(field.path, "a policy document") from None
    for each in listed if isinstance(listed, list) else [listed]:
        if _has_unknown(each):
            raise UnknownFieldError(field.path)
        if not isinstance(each, dict):
            raise MalformedFieldError(field.path, "a policy document")
        yield Statement(field, each)


def _words(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(each) for each in value]


def _has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_unknown(each) for each in value.values())
    if isinstance(value, list):
        return any(_has_unknown(each) for each in value)
    return value is UNKNOWN
