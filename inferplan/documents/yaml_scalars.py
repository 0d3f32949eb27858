"""Reads unquoted YAML scalars as Go's yaml.v3 does, and finds those that other parsers read
differently.
"""

import re

Scalar = str | int | float | bool | None

_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
# YAML 1.1 parsers (PyYAML, many editors) read booleans here, YAML 1.2 parsers text.
_AMBIGUOUS_BOOLEANS = re.compile(r"^(?:yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$")
_SEXAGESIMAL = re.compile(r"^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$")
_DATE = re.compile(
    r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}.*)?$"
)
_INTEGER = re.compile(r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)$")
_FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_NOT_FINITE = re.compile(r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")
_PLAIN_NUMBER = re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$")
AMBIGUOUS = "is ambiguous: some YAML parsers read"
_LARGEST = 2**64
_LONGEST_NUMBER = 64


def resolve(text: str) -> tuple[Scalar, str | None]:
    """The value of the unquoted scalar `text`, and why it is ambiguous (None: it is not)."""
    if text in _NULLS:
        return None, None
    if text in _BOOLEANS:
        return _BOOLEANS[text], None
    first = text[0]
    if not (first.isascii() and (first.isdigit() or first in "+-.")):
        if _AMBIGUOUS_BOOLEANS.match(text):
            return (
                text,
                (
                    f"{text} {AMBIGUOUS} a boolean, others text. Write true or false, or quote it:"
                    f" '{text}'"
                ),
            )
        return text, None
    return _number_like(text)


def _number_like(text: str) -> tuple[Scalar, str | None]:
    if _DATE.match(text):
        return text, f"{text} is read as a date, which changes its format. Quote it: '{text}'"
    if _SEXAGESIMAL.match(text):
        return text, f"{text} {AMBIGUOUS} a base-60 number, others text. Quote it: '{text}'"
    if _NOT_FINITE.match(text):
        return text, f"{text} is not a finite number. Write a finite number, or quote it: '{text}'"
    if _INTEGER.match(text) or _FLOAT.match(text):
        return _number(text)
    return text, None


def _number(text: str) -> tuple[Scalar, str | None]:
    if len(text) > _LONGEST_NUMBER:
        return (
            text,
            (
                f"The number has {len(text)} characters, but the maximum is {_LONGEST_NUMBER}."
                " Shorten it, or quote it."
            ),
        )
    value = _value(text)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return text, f"{text} is out of range. Write a smaller number, or quote it: '{text}'"
    if not _PLAIN_NUMBER.match(text):
        return value, f"{text} is read as the number {value}. Write {value}, or quote it: '{text}'"
    return value, None


def _value(text: str) -> int | float:
    if not _INTEGER.match(text):
        return float(text)
    digits = text.replace("_", "")
    sign, body = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
    base = {"0b": 2, "0o": 8, "0x": 16}.get(body[:2], 8 if len(body) > 1 and body[0] == "0" else 10)
    body = body[2:] if base != 10 and body[1:2] in ("b", "o", "x") else body
    value = sign * int(body or "0", base)
    # Beyond 64 bits the CLI falls back to a float and loses digits, so we do too.
    return value if -_LARGEST // 2 <= value < _LARGEST else float(value)
