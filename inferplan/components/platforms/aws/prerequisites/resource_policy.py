"""Policies of resources (buckets, keys, file systems, endpoints) as IAM evaluates them, for a
request of pods or of AWS itself; and a policy with one more statement.
"""

import fnmatch
import ipaddress
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Statement = Mapping[str, Any]
UNKNOWN = "?"
"""The value of a condition key that cannot be known before the request."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request of the principal `arn` ("" for one without an identity). `context` has the values
    of condition keys in lower case; a key that is missing in it is missing in the request.
    """

    action: str
    resource: str
    arn: str = ""
    service: str = ""
    context: Mapping[str, str] = field(default_factory=dict)
    by_account: bool = True
    """True if IAM of the account allows what a policy leaves to the account."""

    @property
    def account(self) -> str:
        return self.arn.split(":")[4] if self.arn else ""


def statements(policy: str | None) -> list[Statement]:
    document = json.loads(policy) if policy else {}
    return [dict(each) for each in _list(document.get("Statement", []))]


def denial(policy: str | None, request: Request) -> tuple[Statement, bool] | None:
    """Return the statement that denies `request`, and whether that is certain; None if none does."""
    doubtful = None
    for each in statements(policy):
        if each["Effect"] == "Deny" and (match := _matches(each, request)) is not False:
            if match:
                return each, True
            doubtful = doubtful or (each, False)
    return doubtful


def is_allowed(policy: str | None, request: Request) -> bool | None:
    """Return whether a statement allows `request`; None if that depends on unknown values."""
    results = [_matches(each, request) for each in statements(policy) if each["Effect"] == "Allow"]
    return True if True in results else None if None in results else False


def with_statement(policy: str | None, statement: Statement) -> str:
    """Return `policy` with `statement`, in quotes of a shell. All other statements stay."""
    document = json.loads(policy) if policy else {"Version": "2012-10-17"}
    kept = [
        each
        for each in _list(document.get("Statement", []))
        if statement.get("Sid") is None or each.get("Sid") != statement["Sid"]
    ]
    return shlex.quote(json.dumps({**document, "Statement": [*kept, statement]}))


def with_value(policy: str, denied: Statement, request: Request) -> tuple[str, str] | None:
    """Return `policy` with the value of `request` among those that the conditions of `denied` spare,
    and that value; None if no condition of it spares anything.
    """
    document = json.loads(policy)
    for each in _list(document["Statement"]):
        if each != denied:
            continue
        for operator, keys in each.get("Condition", {}).items():
            for key, values in keys.items():
                value = request.context.get(key.lower())
                if "Not" in operator and value not in (None, UNKNOWN):
                    keys[key] = [*_list(values), value]
                    return shlex.quote(json.dumps(document)), str(value)
    return None


def _matches(statement: Statement, request: Request) -> bool | None:
    parts = [
        _names(statement, "Action", request.action),
        _names(statement, "Resource", request.resource) if _has(statement, "Resource") else True,
        _is_principal(statement, request),
        *_conditions(statement.get("Condition", {}), request.context),
    ]
    return False if False in parts else None if None in parts else True


def _has(statement: Statement, key: str) -> bool:
    return key in statement or f"Not{key}" in statement


def _names(statement: Statement, key: str, value: str) -> bool:
    patterns = _list(statement.get(key, statement.get(f"Not{key}", [])))
    return any(_like(value.lower(), str(each).lower()) for each in patterns) == (key in statement)


def _is_principal(statement: Statement, request: Request) -> bool:
    if not _has(statement, "Principal"):
        return True
    entry = statement.get("Principal", statement.get("NotPrincipal"))
    names = [entry] if isinstance(entry, str) else _list(entry.get("AWS", []))
    services = [] if isinstance(entry, str) else _list(entry.get("Service", []))
    is_of_account = request.arn and (request.by_account or statement["Effect"] == "Deny")
    whole = {"*", *([request.account, _root(request)] if is_of_account else [])}
    named = bool(whole & set(names)) or request.arn in names or request.service in services
    return named == ("Principal" in statement)


def _root(request: Request) -> str:
    return f"arn:aws:iam::{request.account}:root"


def _conditions(
    conditions: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]
) -> Iterator[bool | None]:
    for operator, keys in conditions.items():
        for key, values in keys.items():
            yield _holds(operator, context.get(key.lower()), [str(each) for each in _list(values)])


def _holds(operator: str, value: str | None, expected: Sequence[str]) -> bool | None:
    name = operator.partition(":")[2] or operator
    optional, name = name.endswith("IfExists"), name.removesuffix("IfExists")
    if name == "Null":
        return (value is None) == (expected[0].lower() == "true")
    negated = "Not" in name
    if value is None:
        return optional or negated or operator.startswith("ForAllValues:")
    if value == UNKNOWN:
        return None
    positive = name.replace("Not", "")
    if positive == "IpAddress":
        address = ipaddress.ip_address(value)
        matches = any(address in ipaddress.ip_network(each, strict=False) for each in expected)
    elif positive in ("StringLike", "ArnLike", "ArnEquals"):
        matches = any(_like(value, each) for each in expected)
    elif positive in ("StringEquals", "StringEqualsIgnoreCase", "Bool"):
        exact = positive == "StringEquals"
        matches = any(
            each == value if exact else each.lower() == value.lower() for each in expected
        )
    else:
        return None
    return matches != negated


def _like(value: str, pattern: str) -> bool:
    # IAM has no character classes.
    return fnmatch.fnmatchcase(value, pattern.replace("[", "[[]"))


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
