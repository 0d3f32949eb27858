"""Replace secrets by digests, so that a plan shows that a secret changed and not its value.

The digest is an HMAC over resource, path and value. With the key that decrypts the stack's secrets it reveals nothing to
others. Without a key it is cut to 16 bits: guesses at a weak password learn at most 16 bits, and one changed secret in
65,536 looks unchanged. Digests have no random part: the same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import Any, Final

from kube import marks
from rehearsal.engine.wire.values import UNKNOWN, Secret, has_unknown, reveal

_PUBLIC_KEY: Final = b"inferplan plan digest 1"
_KEYED_HEX: Final = 24
_PUBLIC_HEX: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """The digest of a secret, "" for an unknown value; `fields` has the digests of the values of a secret map."""

    digest: str
    fields: dict[str, Masked] | None = field(default=None)

    def __repr__(self) -> str:
        return "[secret]"


def mask(value: Any, *, urn: str, key: bytes | None = None) -> Any:
    """`value` with each `Secret` replaced by `Masked`. `urn` gives equal secrets of two resources different digests."""
    return _mask(value, urn, key)


def _mask(value: Any, path: str, key: bytes | None) -> Any:
    if isinstance(value, Secret):
        return _masked(reveal(value), path, key)
    if isinstance(value, dict):
        return {name: _mask(item, f"{path}\0{name}", key) for name, item in value.items()}
    if isinstance(value, list):
        return [_mask(item, f"{path}\0{index}", key) for index, item in enumerate(value)]
    return value


def _masked(plain: Any, path: str, key: bytes | None) -> Masked:
    fields = None
    if isinstance(plain, dict):
        fields = {name: _masked(item, f"{path}\0{name}", key) for name, item in sorted(plain.items())}
    if has_unknown(plain):
        return Masked(digest="", fields=fields)
    text = f"{path}\0\0{json.dumps(plain, sort_keys=True)}"
    digest = hmac.new(key or _PUBLIC_KEY, text.encode(), hashlib.sha256).hexdigest()
    return Masked(digest=digest[: _KEYED_HEX if key else _PUBLIC_HEX], fields=fields)


def to_json(value: Any, *, digests: bool) -> Any:
    """`value` in Pulumi's JSON notation: a marker for secrets (with our digest if `digests`), a text for unknown values."""
    if isinstance(value, Masked):
        marker: dict[str, Any] = {marks.SIGNATURE: marks.SECRET, "ciphertext": "[secret]"}
        if digests:
            marker["digest"] = value.digest
            if value.fields is not None:
                marker["fields"] = {name: to_json(item, digests=True) for name, item in value.fields.items()}
        return marker
    if value is UNKNOWN:
        return marks.UNKNOWN_TEXT
    if isinstance(value, Secret):
        raise TypeError("mask secrets before you write them")
    if isinstance(value, dict):
        return {name: to_json(item, digests=digests) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [to_json(item, digests=digests) for item in value]
    return value


def from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get(marks.SIGNATURE) == marks.SECRET:
            parts = value.get("fields")
            fields = None if parts is None else {name: from_json(item) for name, item in parts.items()}
            return Masked(digest=value.get("digest", ""), fields=fields)
        return {name: from_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return UNKNOWN if value == marks.UNKNOWN_TEXT else value
