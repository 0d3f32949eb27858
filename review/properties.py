"""Applies the rules on properties to one resource that changes: which of them a change meets, and in what words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from review.declared import amount
from review.kinds import PropertyRule, rules_for
from review.leaves import leaves
from review.paths import MISSING
from review.preview import Step
from review.text import clean, told_apart
from review.values import show, veil

_LONGEST = 60
_PLACE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A rule that a change meets. `subject` and `name` are what it is said of, "" for the resource itself."""

    rule: PropertyRule
    subject: str
    name: str
    cause: str
    consequence: str


def matches(step: Step) -> Iterator[Match]:
    """The rules on properties that `step` meets; none unless it has a state on both sides."""
    rules = rules_for(step.type)
    if not rules or step.old is None or step.new is None:
        return
    old, new = (leaves(state.inputs or {}) for state in (step.old, step.new))
    differing = [path for path in dict.fromkeys((*old, *new)) if old.get(path, MISSING) != new.get(path, MISSING)]
    if not differing:
        return
    shown = leaves(veil(step.old.inputs or {}, step.type)), leaves(veil(step.new.inputs or {}, step.type))
    for rule in rules:
        told: set[str] = set()
        for path in differing:
            found = rule.path.fullmatch(path)
            if found is None or not _meets(rule, old, new, path, found):
                continue
            named = found.groupdict()
            part = named.get("part") or ""
            if rule.group and part in told:
                continue
            told.add(part)
            yield Match(
                rule=rule,
                subject=rule.subject,
                name=clean(named.get("name") or ""),
                cause=_cause(rule, path, *(values.get(path, MISSING) for values in shown)),
                consequence=_filled(rule.consequence, shown[1], step),
            )


def _meets(rule: PropertyRule, old: dict[str, Any], new: dict[str, Any], path: str, found: re.Match[str]) -> bool:
    before, after = old.get(path, MISSING), new.get(path, MISSING)
    if rule.group and before is not MISSING and after is MISSING:
        # A part is gone when nothing of it is left.
        whole = path[: found.end("part")]
        return not any(each == whole or each.startswith((f"{whole}.", f"{whole}[")) for each in new)
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
    """The words for how `before` became `after`."""
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
    # What cannot be compared may be less: an unknown value is not a harmless one.
    return {"changed", "lowered"}


def _is_day(value: Any) -> bool:
    return isinstance(value, str) and re.match(r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]", value) is not None


def _cause(rule: PropertyRule, path: str, before: Any, after: Any) -> str:
    if rule.default is not None:
        before, after = (rule.default if each is MISSING else each for each in (before, after))
    if rule.pick is not None:
        before, after = (MISSING if each is MISSING else ", ".join(rule.pick.findall(str(each))) for each in (before, after))
    old, new = told_apart(show(before), show(after), _LONGEST)
    unit = f" {rule.unit}{'' if new == '1' else 's'}" if rule.unit and new else ""
    return f"{clean(path)}: {old or 'nothing'} → {new or 'nothing'}{unit}"


def _filled(text: str, shown: dict[str, Any], step: Step) -> str:
    return _PLACE.sub(lambda place: show(shown.get(place[1], MISSING)) or clean(step.name), text)
