"""Decides requests by IAM's rules for the part of its language that the documents here use;
anything else is an error.

An explicit denial wins, else an allowance, else nothing is allowed. Written for tests: it refuses
what it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]
_KEYS = {"Sid", "Effect", "Principal", "Action", "Resource", "Condition"}


@dataclass(frozen=True)
class Request:
    """Somebody (`principal`: kind and value) wants `action` on `resource`, with these context keys."""

    action: str
    resource: str = "*"
    principal: tuple[str, str] | None = None
    context: Mapping[str, str] = field(default_factory=dict)


def allowed(documents: Iterable[Document], request: Request) -> bool:
    """Whether `documents` together let `request` pass."""
    effects = [
        statement["Effect"]
        for each in documents
        for statement in each["Statement"]
        if _applies(statement, request)
    ]
    return "Deny" not in effects and "Allow" in effects


def _applies(statement: Mapping[str, Any], request: Request) -> bool:
    unknown = set(statement) - _KEYS
    assert not unknown, f"the evaluator does not know {unknown}"
    return (
        any(
            _like(pattern, request.action, ignore_case=True)
            for pattern in _list(statement["Action"])
        )
        and (
            "Resource" not in statement
            or any(_like(pattern, request.resource) for pattern in _list(statement["Resource"]))
        )
        and ("Principal" not in statement or _principal(statement["Principal"], request.principal))
        and all(
            _condition(operator, keys, request.context)
            for operator, keys in statement.get("Condition", {}).items()
        )
    )


def _principal(stated: Any, asking: tuple[str, str] | None) -> bool:
    if stated == "*":
        return True
    return any(
        asking is not None and kind == asking[0] and value in ("*", asking[1])
        for kind, values in stated.items()
        for value in _list(values)
    )


def _condition(operator: str, keys: Mapping[str, Any], context: Mapping[str, str]) -> bool:
    def one(key: str, wanted: Any) -> bool:
        if operator == "Null":
            return (key not in context) == (wanted == "true")
        # A key that the request does not carry fails a positive operator.
        if key not in context:
            return False
        value = context[key]
        match operator:
            case "StringEquals":
                return value in _list(wanted)
            case "StringLike" | "ArnLike":
                return any(_like(pattern, value) for pattern in _list(wanted))
            case "Bool":
                return value == wanted
            case _:
                raise AssertionError(f"the evaluator does not know {operator}")

    return all(one(key, wanted) for key, wanted in keys.items())


def _like(pattern: str, value: str, *, ignore_case: bool = False) -> bool:
    expression = "".join(
        ".*" if char == "*" else "." if char == "?" else re.escape(char) for char in pattern
    )
    return (
        re.fullmatch(expression, value, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
        is not None
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
