"""Property values of the SDK's protocol as plain data, with marks for secrets and unknown values.

`Secret` never shows its value; only `reveal` returns it, and only requests to an API server call that. A wire value of an
unknown type (such as an asset) stays the map that it is on the wire.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import struct_pb2

from kube import marks


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
    """The properties in `struct` as plain data, keys sorted: protobuf's order differs between processes."""
    fields = struct.fields
    return {key: _value_from_wire(fields[key]) for key in sorted(fields)}


def _value_from_wire(value: struct_pb2.Value) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            text = value.string_value
            plain: Any = UNKNOWN if text == marks.UNKNOWN_TEXT else text
        case "struct_value":
            fields = value.struct_value.fields
            is_secret = marks.SIGNATURE in fields and fields[marks.SIGNATURE].string_value == marks.SECRET
            plain = Secret(_value_from_wire(fields["value"])) if is_secret else from_wire(value.struct_value)
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
    for key, value in properties.items():
        _fill(struct.fields[key], value)
    return struct


def _fill(slot: struct_pb2.Value, value: Any) -> None:
    if value is None:
        slot.null_value = struct_pb2.NULL_VALUE
    elif value is UNKNOWN:
        slot.string_value = marks.UNKNOWN_TEXT
    elif isinstance(value, Secret):
        wrapped = slot.struct_value.fields
        wrapped[marks.SIGNATURE].string_value = marks.SECRET
        _fill(wrapped["value"], value.value)
    elif isinstance(value, bool):
        slot.bool_value = value
    elif isinstance(value, (int, float)):
        slot.number_value = value
    elif isinstance(value, str):
        slot.string_value = value
    elif isinstance(value, dict):
        slot.struct_value.SetInParent()
        for key, item in value.items():
            _fill(slot.struct_value.fields[str(key)], item)
    else:
        slot.list_value.SetInParent()
        for item in value:
            _fill(slot.list_value.values.add(), item)


def reveal(value: Any) -> Any:
    """`value` with every secret in plain text, for requests to an API server. Never log or store the result."""
    if isinstance(value, Secret):
        return reveal(value.value)
    if isinstance(value, dict):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    return any(leaf is UNKNOWN for leaf, _ in _leaves(value))


def _leaves(value: Any, *, secret: bool = False) -> Iterator[tuple[Any, bool]]:
    if isinstance(value, Secret):
        yield from _leaves(value.value, secret=True)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item, secret=secret)
    else:
        yield value, secret


def mark_secrets(outputs: Any, inputs: Any) -> Any:
    """`outputs`, with a value marked secret if the value at the same path in `inputs` is."""
    if isinstance(inputs, Secret):
        return outputs if isinstance(outputs, Secret) else Secret(outputs)
    if isinstance(inputs, dict) and isinstance(outputs, dict):
        return {key: mark_secrets(item, inputs[key]) if key in inputs else item for key, item in outputs.items()}
    if isinstance(inputs, list) and isinstance(outputs, list):
        rest = outputs[len(inputs) :]
        return [mark_secrets(item, source) for item, source in zip(outputs, inputs, strict=False)] + rest
    return outputs


def without_secrets(message: str, inputs: Mapping[str, Any]) -> str:
    """`message` with `[secret]` instead of each secret text of `inputs`. Texts under 4 characters stay: they match too much."""
    texts = {leaf for leaf, secret in _leaves(inputs) if secret and isinstance(leaf, str) and len(leaf) >= 4}
    for text in sorted(texts, key=len, reverse=True):
        message = message.replace(text, "[secret]")
    return message
