"""Condition operators of IAM: whether a condition holds for the value, the values or the absence of a key in a request.

Rules: "IAM JSON policy elements: Condition operators" and "Conditions with multiple context keys or values" of the IAM User
Guide, read 2026-11-22. An unknown operator holds for every request.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import operator as compare
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from policies.iam.arns import arn_like, text_like

Request = str | Sequence[str] | None
"""The value of a key in a request: text, several texts for a multivalued key, None where the key is absent."""

Test = Callable[[str, str], bool]
_ORDERS = {
    "equals": compare.eq,
    "lessthan": compare.lt,
    "lessthanequals": compare.le,
    "greaterthan": compare.gt,
    "greaterthanequals": compare.ge,
}


def _number(order: Callable[[float, float], bool]) -> Test:
    return lambda expected, actual: _tried(lambda: order(float(actual), float(expected)))


def _date(order: Callable[[float, float], bool]) -> Test:
    return lambda expected, actual: _tried(lambda: order(_seconds(actual), _seconds(expected)))


def _seconds(text: str) -> float:
    return float(text) if text.isdigit() else dt.datetime.fromisoformat(text).timestamp()


def _within(expected: str, actual: str) -> bool:
    return _tried(lambda: ipaddress.ip_address(actual) in ipaddress.ip_network(expected, strict=False))


def _tried(test: Callable[[], bool]) -> bool:
    try:
        return test()
    except ValueError:
        return False


_TESTS: Mapping[str, Test] = {
    "stringequals": lambda expected, actual: expected == actual,
    "stringequalsignorecase": lambda expected, actual: expected.lower() == actual.lower(),
    "stringlike": text_like,
    "arnequals": arn_like,
    "arnlike": arn_like,
    "bool": lambda expected, actual: expected.lower() == actual.lower(),
    "binaryequals": lambda expected, actual: expected == actual,
    "ipaddress": _within,
    **{f"numeric{name}": _number(order) for name, order in _ORDERS.items()},
    **{f"date{name}": _date(order) for name, order in _ORDERS.items()},
}
# Negated operators, with the operators that they negate.
_NEGATED = {
    **{f"{kind}not{rest}": f"{kind}{rest}" for kind, rest in (("string", "equals"), ("string", "equalsignorecase"), ("string", "like"))},
    "arnnotequals": "arnequals",
    "arnnotlike": "arnlike",
    "notipaddress": "ipaddress",
    "numericnotequals": "numericequals",
    "datenotequals": "dateequals",
}


class Operator(NamedTuple):
    """One operator: `set_` is `forallvalues`, `foranyvalue` or "", `name` is without prefix and suffix and in small letters."""

    name: str
    set_: str = ""
    if_exists: bool = False

    @property
    def negated(self) -> bool:
        """True if the condition holds if nothing matches."""
        return self.name in _NEGATED

    def holds(self, expected: Iterable[str], value: Request) -> bool:
        """True if the condition holds for a request with `value` for the key."""
        if self.name == "null":
            return any((value is None or value == []) == (each.lower() == "true") for each in expected)
        test = _TESTS.get(_NEGATED.get(self.name, self.name))
        if test is None:
            return True
        patterns = list(expected)
        if value is None or value == []:
            # Without a value, ForAllValues holds and ForAnyValue does not.
            return self.set_ == "forallvalues" or (self.set_ != "foranyvalue" and (self.if_exists or self.negated))
        values = [value] if isinstance(value, str) else value
        verdicts = [any(test(each, one) for each in patterns) != self.negated for one in values]
        return any(verdicts) if self.set_ == "foranyvalue" else all(verdicts)


def parse_operator(text: str) -> Operator:
    """The parts of `ForAnyValue:StringLikeIfExists`."""
    set_, _, name = text.strip().lower().rpartition(":")
    return Operator(name.removesuffix("ifexists"), set_, name.endswith("ifexists") and name != "ifexists")


class Condition(NamedTuple):
    """One key of a condition block with its operator and expected values; the key is in small letters."""

    operator: Operator
    key: str
    values: tuple[str, ...]

    def holds(self, value: Request) -> bool:
        """True if the condition holds for a request with `value` for the key."""
        return self.operator.holds(self.values, value)
