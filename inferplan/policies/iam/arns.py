"""ARNs and actions of IAM, and which patterns match them, by the IAM User Guide (read 2026-11-22)."""

import re
from functools import cache
from typing import NamedTuple

_WILD = re.compile(r"[*?]")
_PARTS = 6
# Services whose ARNs have no type before the name.
_UNTYPED = frozenset(["s3", "sns", "sqs", "execute-api"])
_TYPED = re.compile(r"[A-Za-z][\w-]*[/:]")
_ONLY_WILD = re.compile(r"[*?/:]*\*[*?/:]*")


class Arn(NamedTuple):
    """The six parts of an ARN, each possibly a pattern."""

    partition: str
    service: str
    region: str
    account: str
    resource: str


def parse_arn(text: str) -> Arn | None:
    """The parts of `text`, None if it is not an ARN. Colons after the fifth belong to the resource."""
    parts = text.split(":", _PARTS - 1)
    return Arn(*parts[1:]) if len(parts) == _PARTS and parts[0] == "arn" else None


def names_every_resource(pattern: str) -> bool:
    """True if a `Resource` matches every resource, or every resource of a type: `*`, `role/*`,
    `secret:*`, `*/*`.
    """
    arn = parse_arn(pattern)
    if arn is None:
        # The last star also matches the missing parts: `*`, `arn:aws:iam::*`.
        return bool(_ONLY_WILD.fullmatch(pattern)) or (
            pattern.startswith("arn:") and pattern.endswith("*")
        )
    return bool(
        _ONLY_WILD.fullmatch(
            arn.resource if arn.service in _UNTYPED else _TYPED.sub("", arn.resource, count=1)
        )
    )


def text_like(pattern: str, text: str) -> bool:
    """StringLike: `*` is any text, `?` is one character; case counts."""
    return bool(_compiled(pattern).fullmatch(text))


def arn_like(pattern: str, text: str) -> bool:
    """ArnLike and ArnEquals: they compare the six parts one by one; `*` and `?` match inside a
    part.
    """
    patterns, parts = pattern.split(":", _PARTS - 1), text.split(":", _PARTS - 1)
    return len(patterns) == len(parts) == _PARTS and all(map(text_like, patterns, parts))


def action_like(pattern: str, action: str) -> bool:
    return text_like(pattern.lower(), action.lower())


def overlaps(pattern: str, other: str) -> bool:
    """True if an action can match both patterns: `s3:Get*` and `s3:*Object`."""
    return _meet(pattern.lower(), other.lower())


def is_wild(text: str) -> bool:
    return bool(_WILD.search(text))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(
        "".join(
            ".*" if char == "*" else "." if char == "?" else re.escape(char) for char in pattern
        ),
        re.DOTALL,
    )


@cache
def _meet(one: str, two: str) -> bool:
    if not one or not two:
        return not (one or two).strip("*")
    if one[0] == "*":
        return _meet(one[1:], two) or _meet(one, two[1:])
    if two[0] == "*":
        return _meet(one, two[1:]) or _meet(one[1:], two)
    return (one[0] == two[0] or "?" in (one[0], two[0])) and _meet(one[1:], two[1:])
