"""Kubernetes quantities by the rules of apimachinery's `resource.Quantity`: valid texts, exact
values, and the canonical form.
"""

import re
from collections.abc import Iterable
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache
from typing import Any

_DECIMAL = {"E": 18, "P": 15, "T": 12, "G": 9, "M": 6, "k": 3, "": 0, "m": -3, "u": -6, "n": -9}
_BINARY = {"Ei": 6, "Pi": 5, "Ti": 4, "Gi": 3, "Mi": 2, "Ki": 1}
_FACTORS = {unit: Decimal(10) ** power for unit, power in _DECIMAL.items()}
_FACTORS |= {unit: Decimal(1024) ** power for unit, power in _BINARY.items()}
_LARGEST_BINARY = Decimal(2**63 - 1)
# From here on the API server loses units (it writes 1000E as 1), and exponents of ten digits keep
# it busy until its time limit.
_TOO_LARGE = Decimal(10) ** 21
_EXACT = Context(prec=1000)
_MILLI = Decimal("0.001")
# A quantity without digits, such as "Ki", is zero to the API server.
_QUANTITY = re.compile(
    rf"(?P<number>[+-]?[0-9]*\.?[0-9]*)(?:(?P<unit>{'|'.join(filter(None, _FACTORS))})|[eE](?P<exponent>[+-]?0*[0-9]{{1,3}}))?"
)

# What users write as a size or a number of cores: a part of what Kubernetes accepts.
SIZE_PATTERN = r"^([0-9]{1,15}(?:\.[0-9]{1,3})?)(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
CPU_PATTERN = r"^(?:[0-9]{1,6}(?:\.[0-9]{1,3})?|[0-9]{1,9}m)$"


def amount(quantity: Any) -> Decimal | None:
    """Return a Kubernetes quantity (`16Gi`, `500m`, 8) as a number; None for anything else, such as
    a computed value.
    """
    if isinstance(quantity, str):
        return _amount(quantity)
    if isinstance(quantity, bool) or not isinstance(quantity, int | float | Decimal):
        return None
    value = Decimal(str(quantity))
    return value if value.is_finite() else None


@lru_cache(maxsize=4096)
def _amount(quantity: str) -> Decimal | None:
    match = _QUANTITY.fullmatch(quantity.strip(" "))
    if match is None or not match[0]:
        return None
    digits = match["number"] if re.search("[0-9]", match["number"]) else "0"
    factor = (
        _FACTORS[match["unit"] or ""]
        if match["exponent"] is None
        else Decimal(f"1e{int(match['exponent'])}")
    )
    value = _EXACT.multiply(Decimal(digits), factor)
    if match["unit"] in _BINARY:
        value = min(value, _LARGEST_BINARY)
    return value if abs(value) < _TOO_LARGE else None


def number(value: Any, default: int) -> int:
    """Return `value` as a whole number, `default` if it is not a number or not known."""
    read = amount(value)
    return default if read is None else int(read)


def bytes_of(quantity: str) -> int:
    """Return the bytes of a memory quantity such as `16Gi`, rounded up. Raises ValueError if the
    text is not a size.
    """
    value = amount(quantity)
    if value is None or value < 0:
        raise ValueError(
            f"{quantity!r} is not a valid size. Use Ki, Mi, Gi, Ti (powers of 1024) or k, M, G, T,"
            " for example 16Gi."
        )
    return int(value.to_integral_value(ROUND_UP))


def millicores_of(quantity: str) -> int:
    """Return the millicores of a CPU quantity such as `4` or `500m`, rounded up. Raises ValueError
    if the text is not a quantity.
    """
    value = amount(quantity)
    if value is None or value < 0:
        raise ValueError(
            f"{quantity!r} is not a valid CPU quantity. Use cores ('4', '0.5') or millicores"
            " ('500m')."
        )
    return int((value * 1000).to_integral_value(ROUND_UP))


def canonical(quantity: str) -> str:
    """Return a quantity as the API server writes it, rounded up to thousandths. Raises ValueError
    if the text is not a quantity.
    """
    value = amount(quantity)
    if value is None:
        raise ValueError(
            f"{quantity!r} is not a Kubernetes quantity. Use a number with an optional unit, for"
            " example 16Gi or 500m."
        )
    value = value.quantize(_MILLI, ROUND_UP, _EXACT)
    match = _QUANTITY.fullmatch(quantity.strip(" "))
    if match is not None and match["unit"] in _BINARY and value and value % 1024 == 0:
        return in_largest_unit(int(value), _BINARY)
    thousandths = int(value * 1000)
    power = (
        next(
            (
                power
                for power in _DECIMAL.values()
                if power >= -3 and thousandths % 10 ** (power + 3) == 0
            ),
            -3,
        )
        if thousandths
        else 0
    )
    digits = thousandths // 10 ** (power + 3)
    if match is not None and match["exponent"] is not None and power:
        return f"{digits}e{power}"
    return f"{digits}{next(unit for unit, each in _DECIMAL.items() if each == power)}"


def cpu_quantity(millicores: int) -> str:
    """Return millicores as a CPU quantity, in whole cores if possible."""
    return f"{millicores}m" if millicores % 1000 else str(millicores // 1000)


def size_quantity(size: int) -> str:
    """Return `size` bytes in the API server's form, so that applying it again shows no difference."""
    return in_largest_unit(size, ("Pi", "Ti", "Gi", "Mi", "Ki", "P", "T", "G", "M", "k"))


def in_largest_unit(size: int, units: Iterable[str]) -> str:
    """Return `size` bytes in the first exact unit of `units`, or without a unit."""
    for unit in units:
        if size and size % int(_FACTORS[unit]) == 0:
            return f"{size // int(_FACTORS[unit])}{unit}"
    return str(size)
