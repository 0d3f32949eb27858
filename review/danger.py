"""What a reviewer must not miss: what goes, what is replaced, what loses its protection; with cause and consequence.

Nothing here knows a stack; what the end of a kind means is in `consequences`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from review.changes import PropertyChange
from review.consequences import ROUTINE, words_of
from review.preview import Step
from review.text import clean, told_apart

OTHER_WEIGHTS = "serves other weights"
"""What is said of a model whose revision changes."""
OTHER_HOST = "answers under another host"
"""What is said of an entrance whose host changes."""
REPLACED = "replaced"
"""What is said of a resource that is made anew."""
PROTECTED = "it is protected: the engine refuses the whole update until its protection is taken off"
"""The consequence of ending what is protected: Pulumi refuses it before it changes anything; a rehearsal says so and goes on."""
UNPROTECTED = "loses its protection"
_UNPROTECTED: dict[tuple[str, ...], str] = {
    ("protect",): "the next change may delete it without being refused",
    ("retainOnDelete",): "deleting it from the stack will delete it for real",
    ("protect", "retainOnDelete"): "the next change may delete it, for real, without being refused",
}
_GOES = ("delete", "discard")
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    """One warning. `weight` orders them: 0 loses data or access, 1 interrupts, 2 is routine."""

    weight: int
    what: str
    kind: str
    name: str
    urn: str
    cause: str
    consequence: str = ""
    common: bool = False
    """Whether its kind has no words of its own, so that one of many says it all."""

    @property
    def refused(self) -> bool:
        """Whether an engine refuses the whole update because of it."""
        return self.consequence.startswith(PROTECTED)


_HOST = re.compile(r"(?:^|\.)(?:spec\.rules\[\d+\]\.host|spec\.tls\[\d+\]\.hosts(?:\[\d+\])?|spec\.hostnames(?:\[\d+\])?|spec\.host)$")
_REVISION = re.compile(r"(?:^|\.)weights\.revision$")
_SERVICE_FACE = re.compile(r"^(?:metadata\.name|spec\.type|spec\.clusterIP|spec\.ports\[\d+\]\.(?:port|nodePort))$")


def dangers_of(step: Step, changes: tuple[PropertyChange, ...]) -> Iterator[Danger]:
    """The warnings that `step` earns; `changes` are its property changes."""
    # What is in a component goes with it, and is told one by one.
    if (step.op in _GOES and step.old and step.old.custom) or step.op == "replace":
        yield _end(step, changes)
    if off := _taken_off(step):
        yield _danger(step, 0, UNPROTECTED, f"{' and '.join(off)} taken off", _UNPROTECTED[off], common=words_of(step.type) is None)
    if step.op not in ("same", "read", "create", *_GOES):
        yield from _meaning(step, changes)


def _taken_off(step: Step) -> tuple[str, ...]:
    if step.old is None or step.new is None:
        return ()
    kept = (("protect", step.old.protect, step.new.protect), ("retainOnDelete", step.old.retain_on_delete, step.new.retain_on_delete))
    return tuple(name for name, before, after in kept if before and not after)


def _end(step: Step, changes: tuple[PropertyChange, ...]) -> Danger:
    replaced = step.op == "replace"
    gone, anew, weight = words_of(step.type) or ("", "", ROUTINE)
    consequence = anew if replaced else gone
    if not replaced and (step.op == "discard" or (step.old and step.old.retain_on_delete)):
        consequence, weight = "it is only forgotten, and stays where it is", ROUTINE
    if step.old and step.old.protect and step.op != "discard":
        consequence, weight = f"{PROTECTED}; then {consequence}" if consequence else PROTECTED, 0
    cause = _cause(step, changes) if replaced else "no longer declared"
    return _danger(step, weight, REPLACED if replaced else "deleted", cause, consequence, common=consequence == PROTECTED)


def _cause(step: Step, changes: tuple[PropertyChange, ...]) -> str:
    causing = [change for change in changes if change.replaces]
    if causing:
        return "; ".join(map(_turn, causing[:3])) + (f"; and {len(causing) - 3} more" if len(causing) > 3 else "")
    return f"{', '.join(map(clean, step.keys))} changes" if step.keys else "asked for, or marked for replacement"


def _meaning(step: Step, changes: tuple[PropertyChange, ...]) -> Iterator[Danger]:
    for change in changes:
        told = _turn(change)
        if _REVISION.search(change.path):
            yield _danger(step, 1, OTHER_WEIGHTS, told, "answers may change; the weights are fetched and every replica restarts")
        elif change.path == "spec.replicas" and change.new == "0":
            yield _danger(step, 1, "stops", told, "no replica answers")
        elif _HOST.search(change.path) and change.old:
            yield _danger(step, 0, OTHER_HOST, told, "clients that call the old host get no answer")
        elif step.type == "kubernetes:core/v1:Service" and step.op == "update" and _SERVICE_FACE.match(change.path) and change.old:
            yield _danger(step, 1, "is called another way", told, "clients that call it the old way get no answer")
    for owner, retired in _retired_keys(step):
        versions = ", ".join(map(str, retired))
        yield _danger(
            step, 0, "retires API keys", f"{owner}: version {versions} dropped", "clients that still use these keys are refused (401)"
        )


def _retired_keys(step: Step) -> Iterator[tuple[str, list[Any]]]:
    """Key versions that were valid and are not any more, by whose they are."""
    before, after = (_key_versions((state.inputs if state else None) or {}) for state in (step.old, step.new))
    for owner, versions in sorted(before.items()):
        retired = [each for each in versions if each not in after.get(owner, [])]
        if retired and step.type.endswith(":ApiKeys"):
            yield clean(owner), retired


def _key_versions(value: dict[str, Any], owner: str = "", depth: int = 0) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key, item in value.items():
        if key == "keys" and isinstance(item, list):
            found[owner] = item
        elif isinstance(item, dict) and depth < 8:
            found |= _key_versions(item, key, depth + 1)
    return found


def _danger(step: Step, weight: int, what: str, cause: str, consequence: str, *, common: bool = False) -> Danger:
    return Danger(
        weight=weight,
        what=what,
        kind=clean(step.kind),
        name=clean(step.name),
        urn=clean(step.urn),
        cause=cause,
        consequence=consequence,
        common=common,
    )


def _turn(change: PropertyChange) -> str:
    old, new = told_apart(change.old, change.new, _LONGEST)
    if "\n" in change.old or "\n" in change.new:
        # A part of a file explains nothing; the property's table has it.
        return f"{change.path} changes"
    return f"{change.path}: {old or 'nothing'} → {new or 'nothing'}"


def once(dangers: Iterable[Danger]) -> list[Danger]:
    """A component and what it makes tell of the same weights or host: one warning is enough, the last and most concrete one."""
    kept: dict[tuple[str, str], Danger] = {}
    for each in dangers:
        subject = f"{each.urn} {each.cause}"
        if each.what == OTHER_WEIGHTS:
            subject = each.name
        elif each.what == OTHER_HOST:
            subject = each.cause.partition(": ")[2]
        kept[each.what, subject] = each
    return _merged(kept.values())


def _merged(dangers: Iterable[Danger]) -> list[Danger]:
    """Those of which there is nothing to say but what is said of others too become one."""
    alike: dict[object, list[Danger]] = {}
    for each in dangers:
        alike.setdefault((each.what, each.consequence) if each.common else id(each), []).append(each)
    several = ((each[0], len(each) - 1) for each in alike.values())
    return [replace(first, name=f"{first.name} and {more} more") if more else first for first, more in several]
