"""Two tables from `data`: the meaning of deleting, replacing, creating and changing a kind, and of changing a property.

A kind that the tables do not list is never called harmless.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

CRITICAL, DISRUPTIVE, ROUTINE = 0, 1, 2
"""Weights of a risk: it loses data or access, it interrupts, it loses nothing."""

_LEVELS = {"critical": CRITICAL, "disruptive": DISRUPTIVE, "routine": ROUTINE}
_PROPERTIES_FROM, _KINDS_FROM = 100, 500
# What goes is read before what comes.
_TURNS = {"delete": 0, "replace": 1, "create": 2, "change": 3}
_PER_KIND = len(_TURNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The meaning of an operation on a resource. `order` sorts risks; `known` is False for a kind that the table does not list."""

    weight: int
    consequence: str
    order: int
    known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRule:
    """One property whose change is a risk; see the head of `properties.toml`."""

    path: re.Pattern[str]
    when: frozenset[str]
    weight: int
    order: int
    what: str
    consequence: str
    new: re.Pattern[str] | None
    old: re.Pattern[str] | None
    pick: re.Pattern[str] | None
    default: Any
    unit: str
    subject: str
    group: bool
    create: bool


@cache
def meaning_of(type_: str, op: str) -> Meaning | None:
    """The meaning of `op` on a resource of `type_`; None if it is known to be harmless by itself."""
    table = _kinds()
    for index, (pattern, row) in enumerate(table):
        if pattern.fullmatch(type_):
            return _meaning(row[op], index * _PER_KIND + _TURNS[op], known=True) if op in row else None
    unknown = _document("kinds")["unknown"]
    return _meaning(unknown[op], len(table) * _PER_KIND + _TURNS[op], known=False) if op in unknown else None


@cache
def owned(type_: str) -> bool:
    """True if only the users of a resource of `type_` depend on it."""
    return next((bool(row.get("own")) for pattern, row in _kinds() if pattern.fullmatch(type_)), False)


def is_known(type_: str) -> bool:
    """True if the table of kinds lists `type_`."""
    return any(pattern.fullmatch(type_) for pattern, _ in _kinds())


@cache
def is_label(path: str) -> bool:
    """True if the property at `path` is a label of its resource."""
    return re.fullmatch(_document("kinds")["labels"], path) is not None


@cache
def rules_for(type_: str) -> tuple[PropertyRule, ...]:
    """The rules on properties of `type_`, in the order of the table."""
    return tuple(rule for pattern, rule in _properties() if pattern.fullmatch(type_))


def _meaning(entry: list[str], place: int, *, known: bool) -> Meaning:
    level, consequence = entry
    return Meaning(weight=_LEVELS[level], consequence=consequence, order=_KINDS_FROM + place, known=known)


@cache
def _document(name: str) -> dict[str, Any]:
    return tomllib.loads(files("review").joinpath(f"data/{name}.toml").read_text(encoding="utf-8"))


@cache
def _kinds() -> tuple[tuple[re.Pattern[str], dict[str, Any]], ...]:
    return tuple((re.compile(row["type"]), row) for row in _document("kinds")["kind"])


@cache
def _properties() -> tuple[tuple[re.Pattern[str], PropertyRule], ...]:
    rows = _document("properties")["property"]
    return tuple((re.compile(row["type"]), _rule(row, index)) for index, row in enumerate(rows))


def _rule(row: dict[str, Any], index: int) -> PropertyRule:
    def pattern(key: str) -> re.Pattern[str] | None:
        return re.compile(row[key]) if key in row else None

    return PropertyRule(
        path=re.compile(row["path"]),
        when=frozenset(row.get("when", "changed removed added").split()),
        weight=_LEVELS[row["level"]],
        order=row.get("order", _PROPERTIES_FROM + index),
        what=row["what"],
        consequence=row["consequence"],
        new=pattern("to"),
        old=pattern("from"),
        pick=pattern("pick"),
        default=row.get("default"),
        unit=row.get("unit", ""),
        subject=row.get("subject", ""),
        group=row.get("group", False),
        create=row.get("create", False),
    )
