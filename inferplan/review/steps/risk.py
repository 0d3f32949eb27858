"""Risks of a step, by the tables of `kinds`: deletions, replacements, harmful changes of
properties, lost protection.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from inferplan.documents.text import clean, joined, transition
from inferplan.kube.disclosure.disclosure import disclosed_path
from inferplan.kube.names import INSTANCE_LABEL
from inferplan.kube.paths import mapping
from inferplan.pulumi_engine.reading.changes import PropertyChange
from inferplan.pulumi_engine.reading.events import Step, type_of
from inferplan.review.steps.content_names import is_named_by_content
from inferplan.review.steps.kinds import (
    CRITICAL,
    DISRUPTIVE,
    ROUTINE,
    Meaning,
    is_known,
    meaning_of,
    owned,
)
from inferplan.review.steps.properties import Match, matches
from inferplan.tables import table

REPLACED, CHANGES = "replaced", "changes"
# Pulumi rejects the update before it changes anything.
PROTECTED = "it is protected: the engine rejects the whole update until its protection is removed"
GONE = "is gone"
UNPROTECTED = "loses its protection"
_UNPROTECTED: dict[tuple[str, ...], str] = {
    ("protect",): "the next change may delete it without being rejected",
    ("retainOnDelete",): "deleting it from the stack will delete it from the cloud",
    (
        "protect",
        "retainOnDelete",
    ): "the next change may delete it from the cloud without being rejected",
}
GOES = ("delete", "discard")
_LONGEST = 60
_IMAGE = re.compile(r"(^|\.)(image|imageUri|imageId)$")
_FIRST, _LAST = 50, 9000


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """One risk. `weight` orders them: 0 loses data or access, 1 interrupts, 2 is routine; `order`
    those of one weight.
    """

    weight: int
    what: str
    kind: str
    name: str
    urn: str
    cause: str
    consequence: str = ""
    common: bool = False
    """True if its kind has no text in the tables: one entry then covers many resources."""
    order: int = _LAST

    @property
    def is_rejected(self) -> bool:
        """True if the engine rejects the whole update because of it."""
        return self.consequence.startswith(PROTECTED)


def risks_of(step: Step, changes: tuple[PropertyChange, ...], real: Step) -> Iterator[Risk]:
    """The risks of `step`. The tables match the values of `real`, and a risk shows those of `step`,
    its copy without hidden values.
    """
    if (
        (state := step.new or step.old)
        and not state.custom
        and not step.type.startswith("kubernetes:")
    ):
        # A component consists of its resources; its stack states the rest as facts.
        return
    # Resources in a component are deleted with it, and reported one by one.
    if (step.op in GOES and step.old and step.old.custom) or step.op == "replace":
        yield _end(step, changes)
    if protections := _removed_protections(step):
        cause = f"{' and '.join(protections)} removed"
        yield _risk(
            step,
            CRITICAL,
            UNPROTECTED,
            cause,
            _UNPROTECTED[protections],
            common=not _matters(step.type),
            order=_FIRST,
        )
    yield from _option_risks(step)
    if step.op in ("create", "import"):
        if (meaning := meaning_of(step.type, "create")) and not _is_component(step):
            yield _risk(
                step,
                meaning.weight,
                "created",
                "new in the stack",
                meaning.consequence,
                order=meaning.order,
            )
        yield from (_of_property(step, each) for each in matches(step, (), real))
    elif step.op not in ("same", "read", *GOES) and not _is_component(step):
        # A replacement that interrupts says all that a change of unknown effect could say.
        ends = (
            step.op == "replace"
            and (end := meaning_of(step.type, "replace")) is not None
            and end.weight < ROUTINE
        )
        yield from (
            _of_property(step, each)
            for each in matches(step, changes, real)
            if not (ends and each.rule.rest)
        )
        if step.op != "replace" and not changes and step.new and step.new.custom:
            yield _of_kind(
                step,
                "the engine sent no properties",
                "what changes is unknown: read the diff of the update",
            )


def gone(urn: str, type_: str) -> Risk:
    """The risk of a resource that was deleted for a replacement that then failed."""
    cause = "the replacement failed after the original was deleted"
    consequence = "nothing replaces it: fix the cause and run the update again"
    return _risk(
        Step(op="replace", urn=urn, type=type_), CRITICAL, GONE, cause, consequence, order=-1
    )


def _is_component(step: Step) -> bool:
    """True for a component of a user's own: its resources are judged one by one. What a provider
    expands is not listed so.
    """
    state = step.new or step.old
    judged = table("review/data/kinds.toml")["judged_components"]
    return state is not None and not state.custom and step.type.partition(":")[0] not in judged


def _matters(type_: str) -> bool:
    meaning = meaning_of(type_, "delete")
    return (
        is_known(type_) and not owned(type_) and meaning is not None and meaning.weight == CRITICAL
    )


def _removed_protections(step: Step) -> tuple[str, ...]:
    if step.old is None or step.new is None:
        return ()
    marks = (
        ("protect", step.old.protect, step.new.protect),
        ("retainOnDelete", step.old.retain_on_delete, step.new.retain_on_delete),
    )
    return tuple(name for name, before, after in marks if before and not after)


def _option_risks(step: Step) -> Iterator[Risk]:
    """The risks of options that a resource gets, and of changes that `ignoreChanges` hides."""
    if step.old is None or step.new is None:
        return
    own = type_of(step.parent).startswith("inferplan:")
    gains = {
        name: [each for each in getattr(step.new, name) if each not in getattr(step.old, name)]
        for name in ("ignore_changes", "replace_on_changes")
    }
    gains["delete_before_replace"] = (
        ["deleteBeforeReplace"]
        if step.new.delete_before_replace and not step.old.delete_before_replace
        else []
    )
    gains["ignored_images"] = [each for each in step.ignored_diffs if _IMAGE.search(each)]
    gains["ignored_diffs"] = [each for each in step.ignored_diffs if not _IMAGE.search(each)]
    ignorable = table("review/data/kinds.toml")["ignorable"]
    for name, (what, consequence) in table("review/data/kinds.toml")["options"].items():
        paths = [
            clean(disclosed_path(each))
            for each in gains[name]
            if not re.fullmatch(ignorable, each) and not (own and each.partition(".")[0] == "data")
        ]
        if paths:
            yield _risk(step, DISRUPTIVE, what, joined(paths, 3), consequence, order=_FIRST + 1)


def _end(step: Step, changes: tuple[PropertyChange, ...]) -> Risk:
    replaced = step.op == "replace"
    meaning = meaning_of(step.type, "replace" if replaced else "delete")
    weight, consequence, order = (
        (meaning.weight, meaning.consequence, meaning.order) if meaning else (ROUTINE, "", _LAST)
    )
    if replaced and is_named_by_content(step):
        weight, consequence = (
            ROUTINE,
            "pods that name it change with it, and keep the old one until then",
        )
    if not replaced and (step.op == "discard" or (step.old and step.old.retain_on_delete)):
        consequence, weight = "it is removed from the state only", ROUTINE
    if step.old and step.old.protect and step.op != "discard":
        consequence, weight = (
            f"{PROTECTED}; then {consequence}"
            if _matters(step.type) and consequence
            else PROTECTED,
            CRITICAL,
        )
    cause = _cause(step, changes) if replaced else f"no longer declared{_identity(step)}"
    common = consequence == PROTECTED or not (meaning and meaning.known)
    return _risk(
        step,
        weight,
        REPLACED if replaced else "deleted",
        cause,
        consequence,
        common=common,
        order=order,
    )


def _identity(step: Step) -> str:
    """The resource's name outside of the stack, if it differs."""
    inputs = step.old_inputs
    names = (inputs.get("bucket"), inputs.get("name"), mapping(inputs, "metadata").get("name"))
    name = next((each for each in names if isinstance(each, str)), step.name)
    return "" if name == step.name else f" ({clean(name)})"


def _cause(step: Step, changes: tuple[PropertyChange, ...]) -> str:
    causing = [change for change in changes if change.replaces]
    if causing:
        return joined([*map(change_text, causing)], 3, "; ")
    return (
        f"{', '.join(map(clean, step.keys))} changes"
        if step.keys
        else "requested, or marked for replacement"
    )


def _of_property(step: Step, match: Match) -> Risk:
    rule = match.rule
    if rule.what == CHANGES:
        return _of_kind(step, match.cause, match.consequence)
    risk = _risk(step, rule.weight, rule.what, match.cause, match.consequence, order=rule.order)
    return replace(
        risk,
        kind=rule.subject or risk.kind,
        name=match.name or (_owner(step) if rule.subject else risk.name),
    )


def _of_kind(step: Step, cause: str, consequence: str) -> Risk:
    """The risk of a change that says nothing but the kind that changes."""
    meaning = meaning_of(step.type, "change") or Meaning(
        weight=DISRUPTIVE, consequence=consequence, order=_LAST - 1
    )
    return _risk(
        step,
        meaning.weight,
        CHANGES,
        cause,
        meaning.consequence,
        order=meaning.order,
        common=not meaning.known,
    )


def _owner(step: Step) -> str:
    """The name of the instance that the object `step` is a part of."""
    name = mapping(step.new_inputs or step.old_inputs, "metadata", "labels").get(INSTANCE_LABEL)
    return clean(name if isinstance(name, str) else step.name)


def _risk(
    step: Step,
    weight: int,
    what: str,
    cause: str,
    consequence: str,
    *,
    common: bool = False,
    order: int = _LAST,
) -> Risk:
    return Risk(
        weight=weight,
        what=what,
        kind=clean(step.kind),
        name=clean(step.name),
        urn=clean(step.urn),
        cause=cause,
        consequence=consequence,
        common=common,
        order=order,
    )


def change_text(change: PropertyChange) -> str:
    # A part of a file explains nothing; the property table has all of it.
    is_file = "\n" in change.old or "\n" in change.new
    return (
        f"{change.path} changes"
        if is_file
        else f"{change.path}: {transition(change.old, change.new, _LONGEST)}"
    )
