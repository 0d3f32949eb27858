"""Secrets made storable: a mark and a digest, so that a change shows while the value does not.

The digest is an HMAC over resource, place and value. With a `key` that only the owner of the stack has (the key that
decrypts its secrets serves: who holds it can read them anyway) it tells nobody else anything. Without one it cannot
be kept from being guessed against, so it is cut to 16 bits: whoever guesses at a weak password learns at most those
16 bits, and a changed secret looks unchanged once in 65,536 times. No randomness: the same input gives the same bytes.
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
    """Where a secret was. `digest` is "" when the value is not known yet; `fields` has the parts of a secret map."""

    digest: str
    fields: dict[str, Masked] | None = field(default=None)

    def __repr__(self) -> str:
        return "[secret]"


def mask(value: Any, *, urn: str, key: bytes | None = None) -> Any:
    """`value` with every `Secret` turned into `Masked`. `urn` tells the resource, so that equal secrets do not look equal."""
    return _mask(value, urn, key)


def _mask(value: Any, place: str, key: bytes | None) -> Any:
    if isinstance(value, Secret):
        return _masked(reveal(value), place, key)
    if isinstance(value, dict):
        return {name: _mask(item, f"{place}\0{name}", key) for name, item in value.items()}
    if isinstance(value, list):
        return [_mask(item, f"{place}\0{index}", key) for index, item in enumerate(value)]
    return value


def _masked(clear: Any, place: str, key: bytes | None) -> Masked:
    fields = None
    if isinstance(clear, dict):
        fields = {name: _masked(item, f"{place}\0{name}", key) for name, item in sorted(clear.items())}
    if has_unknown(clear):
        return Masked(digest="", fields=fields)
    text = f"{place}\0\0{json.dumps(clear, sort_keys=True)}"
    digest = hmac.new(key or _PUBLIC_KEY, text.encode(), hashlib.sha256).hexdigest()
    return Masked(digest=digest[: _KEYED_HEX if key else _PUBLIC_HEX], fields=fields)


def to_json(value: Any, *, digests: bool) -> Any:
    """`value` as Pulumi spells it in JSON: secrets as its marker (with our digest if `digests`), unknowns as its text."""
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
        raise TypeError("a secret must be masked before it is written down")
    if isinstance(value, dict):
        return {name: to_json(item, digests=digests) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [to_json(item, digests=digests) for item in value]
    return value


def from_json(value: Any) -> Any:
    """The reverse of `to_json` with digests."""
    if isinstance(value, dict):
        if value.get(marks.SIGNATURE) == marks.SECRET:
            parts = value.get("fields")
            fields = None if parts is None else {name: from_json(item) for name, item in parts.items()}
            return Masked(digest=value.get("digest", ""), fields=fields)
        return {name: from_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return UNKNOWN if value == marks.UNKNOWN_TEXT else value
