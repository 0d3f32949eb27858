"""Applies the rules on properties to the change of one resource. Rules name values by their path."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import ne
from typing import Any

from inferplan.documents.text import clean, joined, transition
from inferplan.kube.disclosure.disclosure import disclosed_path, shown_key
from inferplan.kube.paths import MISSING, parse, text_of, value_at
from inferplan.kube.quantity import amount
from inferplan.pulumi_engine.reading.changes import PropertyChange, property_changes
from inferplan.pulumi_engine.reading.events import Step, type_of
from inferplan.pulumi_engine.reading.values import SECRET, show, veil, veil_at
from inferplan.review.steps.kinds import Condition, Harmless, PropertyRule, harmless_for, rules_for
from inferplan.review.steps.leaves import differing_leaves, has_parts, leaves, path_in, value_in

_LONGEST = 80
_MOST_CAUSES = 3
_PLACE = re.compile(r"\{([^{}]+)\}")
_VERSION = re.compile(r"v?[0-9]+(\.[0-9]+)*")
_DAY = re.compile(r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A rule that applies to a change. `name` is that of the rule's subject, "" for the resource
    itself.
    """

    rule: PropertyRule
    name: str
    cause: str
    consequence: str


class _Comparison:
    """The values of `real` that differ, by path, and how `step`, its copy, shows them. `others` are
    changes that the inputs do not show.
    """

    def __init__(self, step: Step, changes: Iterable[PropertyChange], real: Step) -> None:
        self.copies = step.old_inputs, step.new_inputs
        self.inputs = old, new = real.old_inputs, real.new_inputs
        self.type, self.step, self.real = step.type, step, real
        self.leaves = differing_leaves(old, new), differing_leaves(new, old)
        self.paths = [
            path
            for path in dict.fromkeys((*self.leaves[0], *self.leaves[1]))
            if ne(*self.values(path))
        ]
        places = tuple(
            {disclosed_path(text_of(leaf.place)) for side in self.leaves for leaf in side.values()}
        )
        # Secrets look the same on both sides, and drift of the live object is in its outputs.
        self.others = {
            each.path: each
            for each in changes
            if not each.path.startswith(places) and _is_same(*self.copies, each.path)
        }
        self.paths = [path for path in self.paths if not self._gets_parts(path)] + [*self.others]

    def _gets_parts(self, path: str) -> bool:
        """True for an empty map or list on one side that has parts on the other: the parts are
        compared.
        """
        old, new = self.values(path)
        side = 0 if old is MISSING else 1 if new is MISSING else None
        if side is None or (new if side == 0 else old) not in ({}, []):
            return False
        return any(each.startswith((f"{path}.", f"{path}[")) for each in self.leaves[side])

    def values(self, path: str) -> tuple[Any, Any]:
        if path not in self.leaves[0] and path not in self.leaves[1]:
            change = self.real_others.get(path, self.others[path])
            return _read(change.old), _read(change.new)
        old, new = (MISSING if path not in each else each[path].value for each in self.leaves)
        return old, new

    def shown(self, side: int, path: str) -> Any:
        """The value at `path` as a report may show it, of side 0 before or 1 after the change."""
        if path in self.others:
            return _read((self.others[path].old, self.others[path].new)[side])
        leaf = self.leaves[side].get(path)
        if leaf is None:
            return self.all_shown[side].get(self.shown_path(path), MISSING)
        place = tuple(shown_key(each) if isinstance(each, str) else each for each in leaf.place)
        return value_in(veil_at(self.copies[side], place, self.type), leaf.inside)

    def shown_path(self, path: str) -> str:
        """`path` as a report may show it."""
        for copied, side in zip(self.copies, self.leaves, strict=True):
            if leaf := side.get(path):
                return path_in(copied, (*leaf.place, *leaf.inside))
        return path

    @cached_property
    def real_others(self) -> dict[str, PropertyChange]:
        """The changes behind `others` with their real values, by the path that a report shows."""
        changes = () if self.real is self.step else property_changes(self.real)
        return {disclosed_path(each.path): each for each in changes}

    @cached_property
    def all_shown(self) -> tuple[dict[str, Any], ...]:
        return tuple(leaves(veil(each, self.type)) for each in self.copies)

    @cached_property
    def former(self) -> dict[str, Any]:
        """Every value before the change, the unchanged ones too."""
        return leaves(self.inputs[0])

    @cached_property
    def remaining(self) -> dict[str, Any]:
        """Every value after the change, the unchanged ones too."""
        return leaves(self.inputs[1])


def matches(step: Step, changes: Iterable[PropertyChange], real: Step) -> Iterator[Match]:
    """The rules that apply to the values of `real`, shown as in its copy `step`; for a new resource
    only those that say so. Every change that no table calls harmless has one.
    """
    is_new = step.op in ("create", "import")
    rules = tuple(rule for rule in rules_for(step.type) if rule.create or not is_new)
    if step.new is None or not rules or (step.old is None and not is_new):
        return
    sides = _Comparison(step, changes, real)
    harmless = harmless_for(step.type, type_of(step.parent))
    # Facts state the size of a component with several parts.
    sides.paths = [
        path
        for path in sides.paths
        if is_new
        or not any(row.stated == "size" and _is_harmless(row, sides, path) for row in harmless)
    ]
    judged: set[str] = set()
    for rule in rules:
        if not rule.rest:
            yield from _matches(rule, sides, step, judged)
    rest: dict[int, list[Match]] = {}
    for path in () if is_new else sides.paths:
        if path in judged or any(_is_harmless(row, sides, path) for row in harmless):
            continue
        # The last row applies to everything.
        rule = next(
            (
                each
                for each in rules
                if each.rest and each.path.fullmatch(path) and _meets(each, sides, path)
            ),
            rules[-1],
        )
        rest.setdefault(rule.order, []).append(_match(rule, path, sides, step))
    for several in rest.values():
        yield replace(
            several[0], cause=joined([each.cause for each in several], _MOST_CAUSES, "; ")
        )


def _matches(
    rule: PropertyRule, sides: _Comparison, step: Step, judged: set[str]
) -> Iterator[Match]:
    parts: set[str] = set()
    for path in sides.paths:
        match = rule.path.fullmatch(path)
        if match is None or not (
            _is_gone(sides, path, match) if rule.group else _meets(rule, sides, path)
        ):
            continue
        judged.add(path)
        part = match.groupdict().get("part") or ""
        if not rule.group or part not in parts:
            parts.add(part)
            yield _match(rule, path, sides, step, name=match.groupdict().get("name") or "")


def _match(
    rule: PropertyRule, path: str, sides: _Comparison, step: Step, *, name: str = ""
) -> Match:
    consequence = _PLACE.sub(
        lambda place: show(sides.all_shown[1].get(place[1], MISSING)) or clean(step.name),
        rule.consequence,
    )
    return Match(
        rule=rule,
        name=clean(shown_key(name)),
        cause=_cause(rule, path, sides),
        consequence=consequence,
    )


def _is_gone(sides: _Comparison, path: str, match: re.Match[str]) -> bool:
    """True if nothing is left of the part of a group that `match` names."""
    before, after = sides.values(path)
    whole = path[: match.end("part")]
    return (
        before is not MISSING
        and after is MISSING
        and not any(
            each == whole or each.startswith((f"{whole}.", f"{whole}[")) for each in sides.remaining
        )
    )


def _meets(rule: PropertyRule, sides: _Comparison, path: str) -> bool:
    before, after = (_picked(rule, each) for each in sides.values(path))
    return (
        before != after
        and _fits(rule, before, after)
        and not rule.when.isdisjoint(_ways(rule, before, after))
    )


def _is_harmless(row: Harmless, sides: _Comparison, path: str) -> bool:
    """True if `row` covers the whole change; with `pick`, if what counts stays the same; with a
    `part`, if nothing of that part was there before.
    """
    match = row.path.fullmatch(path)
    if match is None:
        return False
    if part := match.groupdict().get("part"):
        starts = (f"{part}.", f"{part}[")
        if any(each == part or each.startswith(starts) for each in sides.former):
            return False
    before, after = sides.values(path)
    if row.pick is not None and _picked(row, before) != _picked(row, after):
        return False
    if row.default is not None:
        before, after = (row.default if each is MISSING else each for each in (before, after))
    ways = _ways(row, before, after)
    if absent := ways & {"added", "removed"}:
        return absent <= row.when and _fits(row, before, after)
    return ("changed" in row.when or ways - {"changed"} <= row.when) and _fits(row, before, after)


def _fits(rule: Condition, before: Any, after: Any) -> bool:
    return (
        (not rule.old or bool(rule.old.search(_plain(before))))
        and (not rule.new or bool(rule.new.search(_plain(after))))
        and (not rule.factor or _grows(before, after, rule.factor))
    )


def _grows(before: Any, after: Any, factor: float) -> bool:
    """True if a quantity gets more than `factor` times as large; also one that was 0 or absent."""
    old, new = amount(before), amount(after)
    return new is not None and float(new) > factor * max(float(old or 0), 1)


def _picked(rule: Condition, value: Any) -> Any:
    """The part of `value` that counts for `rule`, or its default."""
    if value is MISSING:
        return MISSING if rule.default is None or rule.pick is not None else rule.default
    if rule.pick is None:
        return value
    return [
        match
        for item in (value if isinstance(value, list) else [value])
        for match in rule.pick.findall(str(item))
    ]


def _is_same(old: dict[str, Any], new: dict[str, Any], text: str) -> bool:
    try:
        path = parse(text)
    except ValueError:
        return True
    return value_at(old, path) == value_at(new, path)


def _read(text: str) -> Any:
    """The value that `show` wrote as `text`."""
    try:
        return json.loads(text) if text else MISSING
    except ValueError:
        return text


def _plain(value: Any) -> str:
    return "" if value is MISSING else str(value).lower() if isinstance(value, bool) else str(value)


def _ways(rule: Condition, before: Any, after: Any) -> set[str]:
    """The `when` words of a change from `before` to `after`."""
    if before is MISSING:
        return {"added"} | ({"gains"} if isinstance(after, list) else set())
    if after is MISSING:
        return {"removed"} | ({"loses"} if isinstance(before, list) else set())
    if isinstance(before, list) and isinstance(after, list):
        gains, loses = (
            any(each not in before for each in after),
            any(each not in after for each in before),
        )
        return {
            "changed",
            *(["gains"] if gains else []),
            *(["loses"] if loses else []),
            *([] if gains or loses else ["reordered"]),
        }
    read: Callable[[Any], Any] = _release if rule.version else _comparable
    old, new = read(before), read(after)
    # A value that cannot be compared counts as lowered: unknown is not harmless.
    return {
        "changed",
        "raised" if type(old) is type(new) and old is not None and new >= old else "lowered",
    }


def _comparable(value: Any) -> Any:
    """`value` as a quantity or a day, None if it is neither."""
    size = amount(value)
    return value if size is None and isinstance(value, str) and _DAY.match(value) else size


def _release(value: Any) -> tuple[int, ...] | None:
    """`1.35` as numbers, None if `value` is not a version."""
    return (
        tuple(map(int, value.removeprefix("v").split(".")))
        if isinstance(value, str) and _VERSION.fullmatch(value)
        else None
    )


def _cause(rule: PropertyRule, path: str, sides: _Comparison) -> str:
    before, after = sides.shown(0, path), sides.shown(1, path)
    if rule.default is not None:
        before, after = (rule.default if each is MISSING else each for each in (before, after))
    if rule.pick is not None:
        picks = [
            MISSING if each is MISSING else ", ".join(_picked(rule, each))
            for each in (before, after)
        ]
        # What differs may be hidden: then the whole values say so.
        before, after = picks if picks[0] != picks[1] else (before, after)
    path = sides.shown_path(path)
    if SECRET in (before, after):
        return f"{clean(path)}: {SECRET.text} (changed)"
    if (
        isinstance(before, list)
        and isinstance(after, list)
        and not has_parts(before)
        and not has_parts(after)
    ):
        # Of two long lists only what differs; where it is the same, the order does.
        removed, added = (
            [each for each in before if each not in after],
            [each for each in after if each not in before],
        )
        before, after = (
            (removed or MISSING, added or MISSING) if removed or added else (before, after)
        )
    return f"{clean(path)}: {transition(_text(before), _text(after), _LONGEST, rule.unit)}"


def _text(value: Any) -> str:
    """`value` as a report shows it, a quantity without quotes."""
    return clean(value) if isinstance(value, str) and amount(value) is not None else show(value)
