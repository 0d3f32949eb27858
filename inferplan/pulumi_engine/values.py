"""Property values of the SDK's protocol as plain data, with marks for secrets and unknown values.

`Secret` never shows its value; only `reveal` returns it, and only requests to an API server call
that. A wire value of an unknown type (such as an asset) stays the map that it is on the wire.

Masking replaces secrets by digests, so that a plan shows that a secret changed and not its value.
The digest is an HMAC over resource, path and value. With the key that decrypts the stack's secrets
it reveals nothing to others. Without a key it is cut to 16 bits: guesses at a weak password learn
at most 16 bits, and one changed secret in 65,536 looks unchanged. Digests have no random part: the
same input gives the same bytes.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf import struct_pb2

from inferplan.kube import marks
from inferplan.kube.disclosure.disclosure import disclosed, hidden_values
from inferplan.kube.names import SECRET_DIGESTS
from inferplan.kube.paths import MISSING, leaves, mapped

_PUBLIC_KEY: Final = b"inferplan plan digest 1"
_KEYED_HEX: Final = 24
_PUBLIC_HEX: Final = 4


class Unknown(enum.Enum):
    """The only value that is known after an update, not before."""

    UNKNOWN = enum.auto()

    def __repr__(self) -> str:
        return self.name


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that prints as `[secret]`. Two secrets are equal if their values are."""

    value: Any

    def __repr__(self) -> str:
        return "[secret]"


def from_wire(struct: struct_pb2.Struct) -> dict[str, Any]:
    """The properties in `struct` as plain data, keys sorted: protobuf's order differs between
    processes.

    Equal texts are one object: many resources of a large stack have the same program, labels and
    names of fields.
    """
    fields = struct.fields
    return {sys.intern(key): _value_from_wire(fields[key]) for key in sorted(fields)}


def _value_from_wire(value: struct_pb2.Value) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            text = value.string_value
            plain: Any = UNKNOWN if text == marks.UNKNOWN_TEXT else sys.intern(text)
        case "struct_value":
            fields = value.struct_value.fields
            is_secret = (
                marks.SIGNATURE in fields and fields[marks.SIGNATURE].string_value == marks.SECRET
            )
            plain = (
                Secret(_value_from_wire(fields["value"]))
                if is_secret
                else from_wire(value.struct_value)
            )
        case "list_value":
            plain = [_value_from_wire(item) for item in value.list_value.values]
        case "number_value":
            number = value.number_value
            plain = int(number) if number.is_integer() else number
        case "bool_value":
            plain = value.bool_value
        case _:
            plain = None
    return plain


def to_wire(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(mapped(properties, _mark_to_wire))
    return struct


def _mark_to_wire(value: Any) -> Any:
    if isinstance(value, Secret):
        return {marks.SIGNATURE: marks.SECRET, "value": mapped(value.value, _mark_to_wire)}
    return marks.UNKNOWN_TEXT if value is UNKNOWN else value


def reveal(value: Any) -> Any:
    """`value` with every secret in plain text, for requests to an API server. Never log or store
    the result.
    """
    return mapped(value, lambda each: reveal(each.value) if isinstance(each, Secret) else each)


def with_unknown_from(live: Any, declared: Any, *, secrets: bool = False) -> Any:
    """`declared` with the live value for each unknown one, and with `secrets` for each secret one
    and its digests; none where MISSING.
    """
    if declared is UNKNOWN or (secrets and isinstance(declared, Secret)):
        return live
    if isinstance(declared, Mapping):
        source = live if isinstance(live, Mapping) else {}
        filled = {
            name: source[name]
            if secrets and name in SECRET_DIGESTS and name in source
            else with_unknown_from(below, value, secrets=secrets)
            for name, value in declared.items()
            for below in (source.get(name, MISSING),)
        }
        return {name: value for name, value in filled.items() if value is not MISSING}
    if isinstance(declared, list):
        source = (
            live
            if isinstance(live, list) and len(live) == len(declared)
            else [MISSING] * len(declared)
        )
        filled = [
            with_unknown_from(one, other, secrets=secrets)
            for one, other in zip(source, declared, strict=True)
        ]
        return [each for each in filled if each is not MISSING]
    return declared


def has_secret(value: Any) -> bool:
    return any(isinstance(each, Secret) for _, each in leaves(value))


def has_unknown(value: Any) -> bool:
    return any(
        has_unknown(each.value) if isinstance(each, Secret) else each is UNKNOWN
        for _, each in leaves(value)
    )


def mark_secrets(outputs: Any, inputs: Any) -> Any:
    """`outputs`, with a value marked secret if the value at the same path in `inputs` is; equal
    texts of both are one object.
    """
    if isinstance(inputs, Secret):
        return outputs if isinstance(outputs, Secret) else Secret(outputs)
    if isinstance(inputs, dict) and isinstance(outputs, dict):
        return {
            key: mark_secrets(item, inputs[key]) if key in inputs else item
            for key, item in outputs.items()
        }
    if isinstance(inputs, list) and isinstance(outputs, list):
        rest = outputs[len(inputs) :]
        return [
            mark_secrets(item, source) for item, source in zip(outputs, inputs, strict=False)
        ] + rest
    return inputs if isinstance(inputs, str) and inputs == outputs else outputs


def secret_texts(value: Any) -> set[str]:
    """The texts in the secrets of `value`."""
    secrets = [each for _, each in leaves(value) if isinstance(each, Secret)]
    return {text for _, text in leaves(reveal(secrets)) if isinstance(text, str)}


def without_secrets(message: str, inputs: Mapping[str, Any]) -> str:
    """`message` with `[secret]` instead of each secret or hidden text of `inputs`. Texts under 4
    characters stay: they match too much.
    """
    plain = reveal(inputs)
    texts = {each for each in secret_texts(inputs) if len(each) >= 4} | hidden_values(
        plain, disclosed(plain)
    )
    for text in sorted(texts, key=len, reverse=True):
        message = message.replace(text, "[secret]")
    return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """The digest of a secret, "" for an unknown value; `fields` has the digests of the values of a
    secret map.
    """

    digest: str
    fields: dict[str, Masked] | None = field(default=None)

    def __repr__(self) -> str:
        return "[secret]"


def mask(value: Any, *, urn: str, key: bytes | None = None) -> Any:
    """`value` with each `Secret` replaced by `Masked`. `urn` gives equal secrets of two resources
    different digests.
    """
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
        fields = {
            name: _masked(item, f"{path}\0{name}", key) for name, item in sorted(plain.items())
        }
    if has_unknown(plain):
        return Masked(digest="", fields=fields)
    text = f"{path}\0\0{json.dumps(plain, sort_keys=True)}"
    digest = hmac.new(key or _PUBLIC_KEY, text.encode(), hashlib.sha256).hexdigest()
    return Masked(digest=digest[: _KEYED_HEX if key else _PUBLIC_HEX], fields=fields)


def to_json(value: Any, *, digests: bool) -> Any:
    """`value` in Pulumi's JSON notation: a marker for secrets (with our digest if `digests`), a
    text for unknown values.
    """
    if isinstance(value, Masked):
        marker: dict[str, Any] = {marks.SIGNATURE: marks.SECRET, "ciphertext": "[secret]"}
        if digests:
            marker["digest"] = value.digest
            if value.fields is not None:
                marker["fields"] = {
                    name: to_json(item, digests=True) for name, item in value.fields.items()
                }
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
            fields = (
                None if parts is None else {name: from_json(item) for name, item in parts.items()}
            )
            return Masked(digest=value.get("digest", ""), fields=fields)
        return {name: from_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return UNKNOWN if value == marks.UNKNOWN_TEXT else value
