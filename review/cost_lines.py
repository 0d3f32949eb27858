"""One line of a stack's cost."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One resource a month, in US dollars: as it is wanted, and the least and the most that it may come to."""

    kind: str
    name: str
    usual: Decimal
    least: Decimal
    most: Decimal
    basis: str
    committable: Decimal = Decimal(0)
    """The part of `usual` that Savings Plans and reservations make cheaper: machines on demand."""
