"""A line of a bill."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One resource a month in US dollars: usual, least and most; `committable` is what Savings
    Plans make cheaper: nodes on demand.
    """

    kind: str
    name: str
    usual: Decimal
    least: Decimal
    most: Decimal
    basis: str
    committable: Decimal = Decimal(0)
