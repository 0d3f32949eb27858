"""Applies the rules on properties to the change of one resource. Rules name values by their path."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from inferplan.documents.text import clean, joined, transition
from inferplan.kube.disclosure.disclosure import shown_key
from inferplan.kube.paths import MISSING
from inferplan.kube.quantity import amount
from inferplan.pulumi_engine.reading.changes import PropertyChange
from inferplan.pulumi_engine.reading.events import Step, type_of
from inferplan.pulumi_engine.reading.values import SECRET, show
from inferplan.review.steps.comparison import Comparison
from inferplan.review.steps.kinds import (
    Condition,
    Harmless,
    PropertyRule,
    harmless_at,
    rules_at,
    rules_for,
)
from inferplan.review.steps.leaves import has_parts

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


def matches(step: Step, changes: Iterable[PropertyChange], real: Step) -> Iterator[Match]:
    """The rules that apply to the values of `real`, shown as in its copy `step`; for a new resource
    only those that say so. Every change that no table calls harmless has one.
    """
    is_new = step.op in ("create", "import")
    rules = tuple(rule for rule in rules_for(step.type) if rule.create or not is_new)
    if step.new is None or not rules or (step.old is None and not is_new):
        return
    sides = Comparison(step, changes, real)
    harmless = partial(harmless_at, step.type, type_of(step.parent))
    # Facts state the size of a component with several parts.
    sides.paths = [
        path
        for path in sides.paths
        if is_new
        or not any(
            row.stated == "size" and _is_harmless(row, sides, path, match)
            for row, match in harmless(path)
        )
    ]
    places: dict[int, list[tuple[str, re.Match[str]]]] = {}
    for path in sides.paths:
        for rule, match in rules_at(step.type, path):
            places.setdefault(id(rule), []).append((path, match))
    judged: set[str] = set()
    for rule in rules:
        if not rule.rest and id(rule) in places:
            yield from _matches(rule, sides, step, places[id(rule)], judged)
    rest: dict[int, list[Match]] = {}
    for path in () if is_new else sides.paths:
        if path in judged or any(_is_harmless(row, sides, path, at) for row, at in harmless(path)):
            continue
        here = (each for each, _ in rules_at(step.type, path) if each.rest)
        # The last row applies to everything.
        rule = next((each for each in here if _meets(each, sides, path)), rules[-1])
        rest.setdefault(rule.order, []).append(_match(rule, path, sides, step))
    for several in rest.values():
        yield replace(
            several[0], cause=joined([each.cause for each in several], _MOST_CAUSES, "; ")
        )


def _matches(
    rule: PropertyRule,
    sides: Comparison,
    step: Step,
    places: list[tuple[str, re.Match[str]]],
    judged: set[str],
) -> Iterator[Match]:
    """The matches of a rule at `places`, paths that it names."""
    parts: set[str] = set()
    for path, match in places:
        if not (_is_gone(sides, path, match) if rule.group else _meets(rule, sides, path)):
            continue
        judged.add(path)
        part = match.groupdict().get("part") or ""
        if not rule.group or part not in parts:
            parts.add(part)
            yield _match(rule, path, sides, step, name=match.groupdict().get("name") or "")


def _match(
    rule: PropertyRule, path: str, sides: Comparison, step: Step, *, name: str = ""
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


def _is_gone(sides: Comparison, path: str, match: re.Match[str]) -> bool:
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


def _meets(rule: PropertyRule, sides: Comparison, path: str) -> bool:
    before, after = (_picked(rule, each) for each in sides.values(path))
    return (
        before != after
        and _fits(rule, before, after)
        and not rule.when.isdisjoint(_ways(rule, before, after))
    )


def _is_harmless(row: Harmless, sides: Comparison, path: str, match: re.Match[str]) -> bool:
    """True if `row` covers the whole change; with `pick`, if what counts stays the same; with a
    `part`, if nothing of that part was there before.
    """
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


def _cause(rule: PropertyRule, path: str, sides: Comparison) -> str:
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
        # Of two long lists, only the items that differ; if the items are the same, their order
        # differs.
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
