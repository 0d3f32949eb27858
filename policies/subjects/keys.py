"""API keys in Kubernetes Secrets. It reads them to judge them, and gives no part of them to a message."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
from collections import Counter
from collections.abc import Iterator

from policies.engine.fields import Field, MalformedFieldError
from policies.engine.resource import Resource
from policies.engine.rule import Subject

KEYS = Subject("object", frozenset(["kubernetes:core:Secret"]), lambda resource: (resource,))
# Entries of these names are API keys that callers send; others may be certificates or files with many keys.
_NAMES = ("api-key", "api_key", "apiKey", "key", "token")


def key_entries(secret: Resource) -> Iterator[tuple[Field, str]]:
    """Each entry that is an API key, with its text. Raises FieldError."""
    for name, field in secret.at("stringData").entries():
        if name in _NAMES:
            yield field, field.text()
    for name, field in secret.at("data").entries():
        if name in _NAMES:
            yield field, decoded(field)


def decoded(field: Field) -> str:
    """The text that base64 stands for. Raises FieldError."""
    try:
        return base64.b64decode(field.text(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise MalformedFieldError(field.path, "base64 of text") from None


def entropy_bits(text: str) -> float:
    """How many bits the weakest version of a key has: by its length and by how evenly its characters are spread."""
    return min((_bits(word) for word in text.split()), default=0.0)


def _bits(word: str) -> float:
    counts = Counter(word)
    shannon = -sum(count / len(word) * math.log2(count / len(word)) for count in counts.values())
    return shannon * len(word)


def days_between(day: str, today: str) -> int | None:
    """Days from `day` to `today`, both as YYYY-MM-DD; None where `day` is no such day."""
    try:
        return (dt.date.fromisoformat(today) - dt.date.fromisoformat(day)).days
    except ValueError:
        return None
