"""API keys in Kubernetes Secrets. No message contains a part of a key."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Iterator

from policies.engine.fields import Field, MalformedFieldError
from policies.engine.resource import Resource, Subject

KEYS = Subject("object", frozenset(["kubernetes:core:Secret"]), lambda resource: (resource,))
# Names of entries with one API key, and endings of files with many. Other entries can be certificates.
_NAMES = ("api-key", "api_key", "apiKey", "key", "token")
_FILES = (".conf", ".map", ".keys")
SHAPES = re.compile(
    r"\b(hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|nvapi-[A-Za-z0-9_-]{40,}|A(KIA|SIA)[0-9A-Z]{16}|AIza[\w-]{35}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{40,}|glpat-[\w-]{20,}|xox[abprs]-[\w-]{20,})(?![\w-])"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|[a-z][a-z0-9+.-]*://[^/\s:@$]*:[^/\s:@$]+@"
)
"""The formats of well-known keys: of hubs, clouds, forges and chats; private keys; passwords in URLs."""
_BEARER = re.compile(r"\bBearer ([A-Za-z0-9._~+/=-]+)")
# Lines of nginx maps: a key by consumer and version, or an imported key by an id that another line assigns to a consumer.
_VERSION = re.compile(r"^\s*\"?(([a-z][-a-z0-9]*)_[1-9][0-9]*)\"?\s+\"", re.MULTILINE)
_HEX = re.compile(r"[0-9a-fA-F]+")
# The smallest Shannon entropy per digit of 32 random hexadecimal digits, in bits.
_RANDOM_DIGIT = 3.0
_IMPORTED = re.compile(r"^\s*\"(_[^\"]+)\"\s+([a-z][-a-z0-9]*);", re.MULTILINE)


def key_entries(secret: Resource) -> Iterator[tuple[Field, str]]:
    """Each API key with its field: the value of an entry, and the bearer tokens in a file. Raises FieldError."""
    for name, field, text in _entries(secret):
        if name in _NAMES:
            if not _is_pem(text):
                yield field, text
        else:
            yield from ((field, token) for token in _BEARER.findall(text))


def versions_in(secret: Resource) -> Iterator[tuple[Field, int]]:
    """The number of valid versions of each key: the words of an entry, or the lines of a consumer in a file. Raises FieldError."""
    for name, field, text in _entries(secret):
        if name in _NAMES:
            yield field, 0 if _is_pem(text) else len(text.split())
        else:
            lines = {*_VERSION.findall(text), *_IMPORTED.findall(text)}
            consumers = Counter(consumer for _key, consumer in lines)
            yield from ((field, count) for count in consumers.values())


def _entries(secret: Resource) -> Iterator[tuple[str, Field, str]]:
    for name, field in secret.at("stringData").entries():
        if _contains_keys(name):
            yield name, field, field.text()
    for name, field in secret.at("data").entries():
        if _contains_keys(name):
            yield name, field, decoded(field)


def _is_pem(text: str) -> bool:
    """True if an entry contains the private key of a certificate."""
    return "-----BEGIN " in text


def _contains_keys(name: str) -> bool:
    return name in _NAMES or name.endswith(_FILES)


def decoded(field: Field) -> str:
    """The text encoded in base64. Raises FieldError."""
    try:
        return base64.b64decode(field.text(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise MalformedFieldError(field, "base64 of text") from None


def entropy_bits(text: str) -> float:
    """The entropy of the weakest version of a key in bits, from its length and the frequency of its characters."""
    return min((_bits(word) for word in text.split()), default=0.0)


def _bits(word: str) -> float:
    counts = Counter(word)
    shannon = -sum(count / len(word) * math.log2(count / len(word)) for count in counts.values())
    if _HEX.fullmatch(word) and shannon >= _RANDOM_DIGIT:
        # Shannon's formula is too low for short texts: sixteen random bytes would have less than 128 bits.
        return 4.0 * len(word)
    return shannon * len(word)


def days_between(day: str, today: str) -> int | None:
    """Days from `day` to `today`, both as YYYY-MM-DD; None if `day` is not a date."""
    try:
        return (dt.date.fromisoformat(today) - dt.date.fromisoformat(day)).days
    except ValueError:
        return None
