"""Kubernetes quantities as numbers. It refuses to guess: other text is a malformed field."""

from __future__ import annotations

import math
import re

from policies.engine.fields import Field, MalformedFieldError

_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]+)?\Z")
_POWERS = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_POWERS |= {f"{letter}i": 1024.0 ** (place + 1) for place, letter in enumerate("KMGTPE")}


def quantity(field: Field) -> float | None:
    """The number that a quantity stands for, None where the field is absent. Raises UnknownFieldError, MalformedFieldError."""
    if field.absent:
        return None
    number = parse(field.text())
    if number is None:
        raise MalformedFieldError(field, "a Kubernetes quantity")
    return number


def parse(text: str) -> float | None:
    """The number that `text` stands for, None if it is not a quantity."""
    match = _QUANTITY.match(text)
    if match is None:
        return None
    number, suffix = match.group(1), match.group(2) or ""
    value = float(number) * _POWERS[suffix] if suffix in _POWERS else float(number + suffix)
    return value if math.isfinite(value) else None
