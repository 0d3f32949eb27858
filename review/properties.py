"""Applies the rules on properties to the change of one resource."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import ne
from typing import Any

from kube.paths import MISSING
from kube.quantity import amount
from review.kinds import PropertyRule, rules_for
from review.leaves import differing_leaves, leaves
from review.step import Step
from review.text import clean, transition
from review.values import show, veil, veil_at

_LONGEST = 60
_PLACE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A rule that applies to a change. `subject` and `name` name what it concerns, "" for the resource itself."""

    rule: PropertyRule
    subject: str
    name: str
    cause: str
    consequence: str


class _Comparison:
    """The values of a step that differ, by path, and how they are shown."""

    def __init__(self, old: dict[str, Any], new: dict[str, Any], type_: str) -> None:
        self.inputs = old, new
        self.type = type_
        self.leaves = differing_leaves(old, new), differing_leaves(new, old)
        self.paths = [path for path in dict.fromkeys((*self.leaves[0], *self.leaves[1])) if ne(*self.values(path))]

    def values(self, path: str) -> tuple[Any, Any]:
        old, new = (MISSING if path not in each else each[path].value for each in self.leaves)
        return old, new

    def shown(self, path: str) -> tuple[Any, Any]:
        """Both values at `path` as a report may show them."""
        old, new = (self._shown(index, path) for index in (0, 1))
        return old, new

    def _shown(self, side: int, path: str) -> Any:
        leaf = self.leaves[side].get(path)
        if leaf is None:
            return self.all_shown[side].get(path, MISSING)
        return leaves(veil_at(self.inputs[side], leaf.place, self.type), leaf.base).get(path, MISSING)

    @cached_property
    def all_shown(self) -> tuple[dict[str, Any], ...]:
        return tuple(leaves(veil(each, self.type)) for each in self.inputs)

    @cached_property
    def remaining(self) -> dict[str, Any]:
        """Every value after the change, the unchanged ones too."""
        return leaves(self.inputs[1])


def matches(step: Step) -> Iterator[Match]:
    """The rules that apply to `step`; for a new resource only those that say so."""
    rules = rules_for(step.type)
    if step.op in ("create", "import"):
        rules = tuple(rule for rule in rules if rule.create)
    elif step.old is None:
        return
    if not rules or step.new is None:
        return
    sides = _Comparison((step.old.inputs if step.old else None) or {}, step.new.inputs or {}, step.type)
    for rule in rules:
        parts: set[str] = set()
        for path in sides.paths:
            match = rule.path.fullmatch(path)
            if match is None or not _meets(rule, sides, path, match):
                continue
            groups = match.groupdict()
            part = groups.get("part") or ""
            if rule.group and part in parts:
                continue
            parts.add(part)
            yield Match(
                rule=rule,
                subject=rule.subject,
                name=clean(groups.get("name") or ""),
                cause=_cause(rule, path, *sides.shown(path)),
                consequence=_PLACE.sub(lambda place: show(sides.all_shown[1].get(place[1], MISSING)) or clean(step.name), rule.consequence),
            )


def _meets(rule: PropertyRule, sides: _Comparison, path: str, match: re.Match[str]) -> bool:
    before, after = sides.values(path)
    if rule.group and before is not MISSING and after is MISSING:
        # A part is gone when nothing of it is left.
        whole = path[: match.end("part")]
        return not any(each == whole or each.startswith((f"{whole}.", f"{whole}[")) for each in sides.remaining)
    if rule.pick is not None:
        before, after = (MISSING if each is MISSING else rule.pick.findall(str(each)) for each in (before, after))
    elif rule.default is not None:
        before, after = (rule.default if each is MISSING else each for each in (before, after))
    if before == after:
        return False
    if (rule.old and not rule.old.search(_plain(before))) or (rule.new and not rule.new.search(_plain(after))):
        return False
    return not rule.when.isdisjoint(_ways(before, after))


def _plain(value: Any) -> str:
    return "" if value is MISSING else str(value).lower() if isinstance(value, bool) else str(value)


def _ways(before: Any, after: Any) -> set[str]:
    """The `when` words of a change from `before` to `after`."""
    if before is MISSING:
        return {"added"} | ({"gains"} if isinstance(after, list) else set())
    if after is MISSING:
        return {"removed"} | ({"loses"} if isinstance(before, list) else set())
    if isinstance(before, list) and isinstance(after, list):
        return (
            {"changed"}
            | ({"gains"} if any(each not in before for each in after) else set())
            | ({"loses"} if any(each not in after for each in before) else set())
        )
    sizes = amount(before), amount(after)
    if sizes[0] is not None and sizes[1] is not None:
        return {"changed", "lowered" if sizes[1] < sizes[0] else "raised"}
    if _is_day(before) and _is_day(after):
        return {"changed", "lowered" if after < before else "raised"}
    # A value that cannot be compared counts as lowered: unknown is not harmless.
    return {"changed", "lowered"}


def _is_day(value: Any) -> bool:
    return isinstance(value, str) and re.match(r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]", value) is not None


def _cause(rule: PropertyRule, path: str, before: Any, after: Any) -> str:
    if rule.default is not None:
        before, after = (rule.default if each is MISSING else each for each in (before, after))
    if rule.pick is not None:
        before, after = (MISSING if each is MISSING else ", ".join(rule.pick.findall(str(each))) for each in (before, after))
    return f"{clean(path)}: {transition(show(before), show(after), _LONGEST, rule.unit)}"
