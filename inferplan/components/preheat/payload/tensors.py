"""Checks the header of a safetensors file, as strictly as its library does and beyond: tensors that overlap, or whose shape and type give another
size than their offsets, and names that occur twice.
"""

from __future__ import annotations

import math
import struct
from array import array
from itertools import groupby, pairwise
from typing import IO, Any

from .json_text import leaves

_HEADER_LIMIT = 100_000_000  # the limit of the safetensors library
# Bits of each type: safetensors 0.7, safetensors/src/tensor.rs.
_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
_MOST_FIELDS = 100
_METADATA = "__metadata__"


def end_of_file(stream: IO[bytes], size: int) -> int:
    """The size of a safetensors file by its own header. Raises ValueError for a header that no library should load."""
    length = header_length(stream, size)
    # One number per tensor and list: there may be a million.
    spans: list[int] = []
    names = array("q")
    for name, items in groupby(leaves(stream, length), key=lambda leaf: leaf[0][0] if leaf[0] else None):
        names.append(hash(name))
        if name == _METADATA:
            if any((len(path), type(value)) not in ((1, dict), (2, str)) for path, value in items):
                raise ValueError(f"{_METADATA} with another value than a text")
            continue
        fields: dict[tuple[Any, ...], Any] = {}
        for path, value in items:
            if path[1:] in fields or len(fields) > _MOST_FIELDS:
                raise ValueError(f"a tensor {name} that is there twice, or with too many fields"[:200])
            fields[path[1:]] = value
        begin, end = _span(str(name), fields)
        spans.append(begin << 64 | end)
    if any(one == other for one, other in pairwise(sorted(names))):
        raise ValueError("two tensors of one name")
    return 8 + length + _end(spans)


def _end(spans: list[int]) -> int:
    """The end of the last tensor, counted from the end of the header."""
    spans.sort()
    last = 0
    for span in spans:
        if span >> 64 != last:
            raise ValueError(f"tensors that overlap or leave a gap at byte {min(last, span >> 64)}")
        last = span & (1 << 64) - 1
    return last


def header_length(stream: IO[bytes], size: int) -> int:
    """The length of the header, at whose start `stream` is afterwards. Raises ValueError for one that is too long."""
    length = struct.unpack("<Q", stream.read(8).ljust(8, b"\x00"))[0]
    if length < len("{}") or length > min(_HEADER_LIMIT, size - 8):
        raise ValueError(f"a header of {length} bytes in a file of {size}")
    if stream.read(1) != b"{":
        raise ValueError("a header that does not start with {")
    stream.seek(-1, 1)
    return length


def _span(name: str, fields: dict[tuple[Any, ...], Any]) -> tuple[int, int]:
    """The first byte of a tensor, and the byte after its last."""
    offsets = [value for path, value in sorted(fields.items(), key=repr) if path[:1] == ("data_offsets",)]
    shape = [value for path, value in fields.items() if path[:1] == ("shape",) and path != ("shape",)]
    numbers = [*offsets, *shape]
    if len(offsets) != 2 or not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise ValueError(f"shape or data_offsets of {name} with {numbers!r}"[:200])
    if not shape and fields.get(("shape",), ()) != []:
        raise ValueError(f"no shape of {name}"[:200])
    bits = _BITS.get(str(fields.get(("dtype",))))
    if bits is None:
        raise ValueError(f"the type {fields.get(('dtype',))!r} of {name}"[:200])
    begin, end = offsets
    if 8 * (end - begin) != bits * math.prod(shape):
        raise ValueError(f"data_offsets {begin} to {end} of {name}, of shape {shape} in {bits} bits each"[:200])
    return begin, end
