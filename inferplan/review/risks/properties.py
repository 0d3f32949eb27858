"""Applies the rules on properties to the change of one resource. Rules name values by their path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import ne
from typing import Any

from inferplan.kube.paths import MISSING, Path, text_of
from inferplan.kube.quantity import amount
from inferplan.review.reading.events import Step
from inferplan.review.reading.values import decoded, show, veil, veil_at
from inferplan.review.rendering.text import clean, transition
from inferplan.review.risks.kinds import PropertyRule, rules_for

_LONGEST = 60
_DEEPEST = 40
_PLACE = re.compile(r"\{([^{}]+)\}")
_DAY = re.compile(r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A rule that applies to a change. `name` is that of the rule's subject, "" for the resource itself."""

    rule: PropertyRule
    name: str
    cause: str
    consequence: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value inside of inputs. `place` leads to it, or to the string whose JSON holds it; `base` is how `place` is written."""

    value: Any
    place: Path
    base: str


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

    def shown(self, side: int, path: str) -> Any:
        """The value at `path` as a report may show it, of side 0 before or 1 after the change."""
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
    sides = _Comparison(step.old_inputs, step.new_inputs, step.type)
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
                name=clean(groups.get("name") or ""),
                cause=_cause(rule, path, sides),
                consequence=_PLACE.sub(lambda place: show(sides.all_shown[1].get(place[1], MISSING)) or clean(step.name), rule.consequence),
            )


def _meets(rule: PropertyRule, sides: _Comparison, path: str, match: re.Match[str]) -> bool:
    before, after = sides.values(path)
    if rule.group and before is not MISSING and after is MISSING:
        # A part is gone when nothing of it is left.
        whole = path[: match.end("part")]
        return not any(each == whole or each.startswith((f"{whole}.", f"{whole}[")) for each in sides.remaining)
    before, after = (_picked(rule, each) for each in (before, after))
    if before == after:
        return False
    if (rule.old and not rule.old.search(_plain(before))) or (rule.new and not rule.new.search(_plain(after))):
        return False
    return not rule.when.isdisjoint(_ways(before, after))


def _picked(rule: PropertyRule, value: Any) -> Any:
    """The part of `value` that counts for `rule`, or its default."""
    if value is MISSING:
        return MISSING if rule.default is None or rule.pick is not None else rule.default
    return value if rule.pick is None else rule.pick.findall(str(value))


def _plain(value: Any) -> str:
    return "" if value is MISSING else str(value).lower() if isinstance(value, bool) else str(value)


def _ways(before: Any, after: Any) -> set[str]:
    """The `when` words of a change from `before` to `after`."""
    if before is MISSING:
        return {"added"} | ({"gains"} if isinstance(after, list) else set())
    if after is MISSING:
        return {"removed"} | ({"loses"} if isinstance(before, list) else set())
    if isinstance(before, list) and isinstance(after, list):
        gains, loses = any(each not in before for each in after), any(each not in after for each in before)
        return {"changed", *(["gains"] if gains else []), *(["loses"] if loses else [])}
    old, new = (_comparable(each) for each in (before, after))
    # A value that cannot be compared counts as lowered: unknown is not harmless.
    return {"changed", "raised" if type(old) is type(new) and old is not None and new >= old else "lowered"}


def _comparable(value: Any) -> Any:
    """`value` as a quantity or a day, None if it is neither."""
    size = amount(value)
    return value if size is None and isinstance(value, str) and _DAY.match(value) else size


def _cause(rule: PropertyRule, path: str, sides: _Comparison) -> str:
    before, after = sides.shown(0, path), sides.shown(1, path)
    if rule.default is not None:
        before, after = (rule.default if each is MISSING else each for each in (before, after))
    if rule.pick is not None:
        before, after = (MISSING if each is MISSING else ", ".join(rule.pick.findall(str(each))) for each in (before, after))
    return f"{clean(path)}: {transition(show(before), show(after), _LONGEST, rule.unit)}"


def leaves(value: Any, base: str = "") -> dict[str, Any]:
    """Every value inside `value`, except maps and lists of maps, by its path after `base`.

    Items of a list that have a `name` are written with it, `spec.containers[server].image`, so that a rule need not know their
    order; JSON in strings is decoded.
    """
    return {path: leaf.value for path, leaf in _leaves(value, MISSING, base, (), None, 0)}


def differing_leaves(value: Any, other: Any) -> dict[str, Leaf]:
    """The leaves of the parts of `value` that differ from `other`, by path."""
    return dict(_leaves(value, other, "", (), None, 0))


def _leaves(value: Any, other: Any, path: str, place: Path, base: str | None, depth: int) -> Iterator[tuple[str, Leaf]]:
    if isinstance(value, str) and (document := decoded(value)) is not value:
        value, base = document, path if base is None else base
    if isinstance(other, str):
        other = decoded(other)
    parts = _parts(value, other, path) if depth < _DEEPEST else None
    if parts is not None:
        for text, key, item, match in parts:
            yield from _leaves(item, match, text, (*place, key) if base is None else place, base, depth + 1)
    elif path:
        yield path, Leaf(value, place, path if base is None else base)


def _parts(value: Any, other: Any, path: str) -> list[tuple[str, str | int, Any, Any]] | None:
    """Path, key, item and the item of `other` for each part of `value` that differs from it; None for a value without parts."""
    if isinstance(value, dict) and value:
        matches = other if isinstance(other, dict) else {}
        return [(_joined(path, key), key, item, match) for key, item in value.items() if item != (match := matches.get(key, MISSING))]
    if not _has_parts(value):
        return None
    labels, matches = _labels(value), _by_label(other)
    if len({*labels}) < len(labels):
        matches = {}
    items = enumerate(zip(labels, value, strict=True))
    return [(f"{path}[{label}]", index, item, match) for index, (label, item) in items if item != (match := matches.get(label, MISSING))]


def _has_parts(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict | list) for item in value)


def _labels(items: list[Any]) -> list[str]:
    names = (item.get("name") if isinstance(item, dict) else None for item in items)
    return [name if isinstance(name, str) else str(index) for index, name in enumerate(names)]


def _by_label(items: Any) -> dict[str, Any]:
    """The items of a list by label; none where labels are ambiguous."""
    labels = _labels(items) if _has_parts(items) else []
    return dict(zip(labels, items, strict=True)) if labels and len({*labels}) == len(labels) else {}


def _joined(path: str, key: str) -> str:
    part = text_of((key,))
    return f"{path}{part}" if not path or part.startswith("[") else f"{path}.{part}"
