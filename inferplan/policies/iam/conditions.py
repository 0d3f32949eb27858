"""Condition operators of IAM: whether a condition holds for the value, the values or the absence of
a key in a request.

Rules: "IAM JSON policy elements: Condition operators" and "Conditions with multiple context keys or
values" of the IAM User Guide, read 2026-11-22. An unknown operator holds for every request.
"""

import datetime as dt
import ipaddress
import operator as compare
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from inferplan.policies.iam.arns import arn_like, text_like

Request = str | Sequence[str] | None
"""The value of a key in a request: text, several texts for a multivalued key, None where the key is
absent.
"""
Test = Callable[[str, str], bool]
_ORDERS = {
    "equals": compare.eq,
    "lessthan": compare.lt,
    "lessthanequals": compare.le,
    "greaterthan": compare.gt,
    "greaterthanequals": compare.ge,
}
_NEGATED = (
    "stringnotequals",
    "stringnotequalsignorecase",
    "stringnotlike",
    "arnnotequals",
    "arnnotlike",
    "notipaddress",
)
_NEGATED += ("numericnotequals", "datenotequals")


def _seconds(text: str) -> float:
    return float(text) if text.isdigit() else dt.datetime.fromisoformat(text).timestamp()


def _compared(convert: Callable[[str], Any], order: Callable[[Any, Any], bool]) -> Test:
    return lambda expected, actual: order(convert(actual), convert(expected))


# A test raises ValueError for a value of another type, which then does not match.
_TESTS: Mapping[str, Test] = {
    "stringequals": compare.eq,
    "stringequalsignorecase": _compared(str.lower, compare.eq),
    "stringlike": text_like,
    "arnequals": arn_like,
    "arnlike": arn_like,
    "bool": _compared(str.lower, compare.eq),
    "binaryequals": compare.eq,
    "ipaddress": lambda expected, actual: (
        ipaddress.ip_address(actual) in ipaddress.ip_network(expected, strict=False)
    ),
    **{f"numeric{name}": _compared(float, order) for name, order in _ORDERS.items()},
    **{f"date{name}": _compared(_seconds, order) for name, order in _ORDERS.items()},
}


class Condition(NamedTuple):
    """One key of a condition block in small letters, with its operator and values; `set_` is
    `forallvalues`, `foranyvalue` or empty.
    """

    operator: str
    set_: str
    if_exists: bool
    key: str
    values: tuple[str, ...]

    @property
    def negated(self) -> bool:
        return self.operator in _NEGATED

    def holds(self, value: Request) -> bool:
        """True if the condition holds for a request with `value` for the key."""
        missing = value is None or value == []
        if self.operator == "null":
            return any(missing == (each.lower() == "true") for each in self.values)
        test = _TESTS.get(self.operator.replace("not", "") if self.negated else self.operator)
        if test is None:
            return True
        if value is None or missing:
            # Without a value, ForAllValues holds and ForAnyValue does not.
            return self.set_ == "forallvalues" or (
                self.set_ != "foranyvalue" and (self.if_exists or self.negated)
            )
        actual = [value] if isinstance(value, str) else value
        verdicts = [
            any(_matches(test, each, one) for each in self.values) != self.negated for one in actual
        ]
        return any(verdicts) if self.set_ == "foranyvalue" else all(verdicts)


def _matches(test: Test, expected: str, actual: str) -> bool:
    try:
        return test(expected, actual)
    except ValueError:
        return False


def parse_condition(operator: str, key: str, values: Sequence[str]) -> Condition:
    """The condition of an operator as written in a document: `ForAnyValue:StringLikeIfExists`."""
    set_, _, name = operator.strip().lower().rpartition(":")
    return Condition(
        name.removesuffix("ifexists"),
        set_,
        name.endswith("ifexists") and name != "ifexists",
        key.lower(),
        tuple(values),
    )
