"""Numbers in a resource's inputs: Kubernetes quantities, and counts that may be computed values."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

_SUFFIXES = {"": 1, "m": Decimal("0.001"), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_SUFFIXES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_TOO_LARGE = 10**24  # more than any quantity; sums stay exact below it


def amount(quantity: Any) -> Decimal | None:
    """A Kubernetes quantity (`16Gi`, `500m`, 8) as a number; None for anything else, such as a computed value."""
    if isinstance(quantity, Decimal):
        return quantity if quantity.is_finite() else None
    if isinstance(quantity, bool):
        return None
    if isinstance(quantity, int | float):
        return Decimal(str(quantity))
    return _amount(quantity) if isinstance(quantity, str) else None


@lru_cache(maxsize=4096)
def _amount(quantity: str) -> Decimal | None:
    digits = quantity.rstrip("KMGTPikm")
    try:
        value = Decimal(digits) * _SUFFIXES[quantity[len(digits) :]]
    except (ArithmeticError, KeyError):
        return None
    return value if value.is_finite() and abs(value) < _TOO_LARGE else None


def number(value: Any, default: int) -> int:
    """`value` as a whole number, `default` if it is not a number or not known."""
    read = amount(value)
    return default if read is None else int(read)
