"""Tables from `data`: operations on kinds, risky and harmless changes of properties. What no table
lists is never harmless.
"""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from inferplan.kube.facts import STATED_CONTENT, STATED_SIZE
from inferplan.tables import table

CRITICAL, DISRUPTIVE, ROUTINE = 0, 1, 2
"""Weights of a risk: it loses data or access, it interrupts, it loses nothing."""

_STATED = {"content": STATED_CONTENT, "size": STATED_SIZE}
_LEVELS = {"critical": CRITICAL, "disruptive": DISRUPTIVE, "routine": ROUTINE}
_PLACES = 4096
_PROPERTIES_FROM, _KINDS_FROM = 100, 500
# In the order in which a report lists them.
_OPERATIONS = ("delete", "replace", "create", "change")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The meaning of an operation on a resource. `order` sorts risks; `known` is False for a kind
    that the table does not list.
    """

    weight: int
    consequence: str
    order: int
    known: bool = True


class Condition(BaseModel):
    """A change of a property: where it is and which way it goes; see the head of `properties.toml`."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, extra="forbid")

    type: re.Pattern[str]
    path: re.Pattern[str]
    when: Annotated[frozenset[str], BeforeValidator(str.split)] = frozenset(
        {"changed", "removed", "added"}
    )
    new: re.Pattern[str] | None = Field(default=None, alias="to")
    old: re.Pattern[str] | None = Field(default=None, alias="from")
    pick: re.Pattern[str] | None = None
    default: Any = None
    version: bool = False
    factor: float = 0


class PropertyRule(Condition):
    """A change that is a risk. With `rest` it applies only to what no other row, and no row of
    `harmless.toml`, judges.
    """

    weight: Annotated[int, BeforeValidator(_LEVELS.__getitem__)] = Field(alias="level")
    order: int
    what: str
    consequence: str
    unit: str = ""
    subject: str = ""
    group: bool = False
    create: bool = False
    rest: bool = False


class Harmless(Condition):
    """A harmless change and its reason. `stated` limits it to resources of components whose content
    or size facts state.
    """

    stated: Literal["", "content", "size"] = ""
    reason: str = Field(min_length=10)


@cache
def meaning_of(type_: str, op: str) -> Meaning | None:
    """The meaning of `op` on a resource of `type_`; None if it is known to be harmless by itself."""
    place, row = _row(type_)
    if op not in row:
        return None
    level, consequence = row[op]
    order = _KINDS_FROM + place * len(_OPERATIONS) + _OPERATIONS.index(op)
    return Meaning(
        weight=_LEVELS[level], consequence=consequence, order=order, known=is_known(type_)
    )


def owned(type_: str) -> bool:
    """True if only the users of a resource of `type_` depend on it."""
    return bool(_row(type_)[1].get("own"))


def is_known(type_: str) -> bool:
    return _row(type_)[0] < len(_kinds())


@cache
def _row(type_: str) -> tuple[int, dict[str, Any]]:
    """Place and row of `type_` in the table of kinds; a kind that it does not list comes last."""
    rows = (each for each in enumerate(_kinds()) if each[1]["type"].fullmatch(type_))
    return next(rows, (len(_kinds()), table("review/data/kinds.toml")["unknown"]))


@cache
def rules_for(type_: str) -> tuple[PropertyRule, ...]:
    return tuple(rule for rule in _property_rules() if rule.type.fullmatch(type_))


@cache
def harmless_for(type_: str, parent: str) -> tuple[Harmless, ...]:
    """The harmless changes of a resource of `type_` in a component of the type `parent`."""
    rows = (each for each in _harmless() if each.type.fullmatch(type_))
    return tuple(each for each in rows if not each.stated or _STATED[each.stated].fullmatch(parent))


@lru_cache(_PLACES)
def rules_at(type_: str, path: str) -> tuple[tuple[PropertyRule, re.Match[str]], ...]:
    """The rules for values of resources of `type_` at `path`, each with its match. Thousands of
    resources change at a few paths.
    """
    matches = ((rule, rule.path.fullmatch(path)) for rule in rules_for(type_))
    return tuple((rule, match) for rule, match in matches if match)


@lru_cache(_PLACES)
def harmless_at(type_: str, parent: str, path: str) -> tuple[tuple[Harmless, re.Match[str]], ...]:
    """The harmless changes of a resource of `type_` at `path`, each with its match."""
    matches = ((row, row.path.fullmatch(path)) for row in harmless_for(type_, parent))
    return tuple((row, match) for row, match in matches if match)


@cache
def _kinds() -> tuple[dict[str, Any], ...]:
    rows = (row for name in ("kinds", "facts") for row in table(f"review/data/{name}.toml")["kind"])
    return tuple({**row, "type": re.compile(row["type"])} for row in rows)


@cache
def _property_rules() -> tuple[PropertyRule, ...]:
    rows = [
        row
        for name in ("facts", "properties")
        for row in table(f"review/data/{name}.toml")["property"]
    ]
    return tuple(
        PropertyRule.model_validate({"order": _PROPERTIES_FROM + index, **row})
        for index, row in enumerate(rows)
    )


@cache
def _harmless() -> tuple[Harmless, ...]:
    return tuple(map(Harmless.model_validate, table("review/data/harmless.toml")["harmless"]))
