"""Property values as plain data: what the SDK puts on the wire, with secrets and unknowns kept as marks of their own.

A secret stays wrapped in `Secret`, whose repr never shows it; `reveal` is the one way to the clear value and is called
only at the edge to an API server. This module refuses to guess: a wire value it does not know stays the map it came as.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from google.protobuf import struct_pb2

from kube import marks

if TYPE_CHECKING:
    from collections.abc import Mapping


class Unknown:
    """A value that only an update will know. There is one instance, `UNKNOWN`."""

    _instance: Self | None = None

    def __new__(cls) -> Self:
        """The one instance."""
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __deepcopy__(self, memo: object) -> Unknown:
        return self

    def __copy__(self) -> Unknown:
        return self

    def __reduce__(self) -> tuple[type[Unknown], tuple[()]]:
        return (Unknown, ())


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that is shown as `[secret]` everywhere. Two are equal when their clear values are."""

    value: Any

    def __repr__(self) -> str:
        return "[secret]"


def from_wire(struct: struct_pb2.Struct) -> dict[str, Any]:
    """The properties in `struct` as plain data, keys sorted: protobuf's own order changes from process to process."""
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
    """`properties` as the SDK expects them back, secrets wrapped again and unknowns spelled out."""
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
    """`value` with every secret in clear. Only for what goes to an API server; never log or store the result."""
    if isinstance(value, Secret):
        return reveal(value.value)
    if isinstance(value, dict):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    """Whether any part of `value` is known only after an update."""
    if isinstance(value, Secret):
        return has_unknown(value.value)
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return value is UNKNOWN


def mark_secrets(outputs: Any, inputs: Any) -> Any:
    """`outputs` with everything marked secret that is secret at the same place in `inputs`."""
    if isinstance(inputs, Secret):
        return outputs if isinstance(outputs, Secret) else Secret(outputs)
    if isinstance(inputs, dict) and isinstance(outputs, dict):
        return {key: mark_secrets(item, inputs[key]) if key in inputs else item for key, item in outputs.items()}
    if isinstance(inputs, list) and isinstance(outputs, list):
        rest = outputs[len(inputs) :]
        return [mark_secrets(item, given) for item, given in zip(outputs, inputs, strict=False)] + rest
    return outputs
