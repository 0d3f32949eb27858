"""Risks of changed facts: `data/facts.toml` says what a change means. A fact that is unlisted,
missing or unreadable is a risk.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from inferplan.documents.text import clean, transition
from inferplan.kube.facts import OUTPUT, Subjects, read
from inferplan.pulumi_engine.reading.events import STACK_TYPE, State, Step
from inferplan.pulumi_engine.reading.values import show, veil
from inferplan.review.reading.preview import Preview, Side
from inferplan.review.steps.kinds import DISRUPTIVE, meaning_of, rules_for
from inferplan.review.steps.leaves import leaves
from inferplan.review.steps.risk import Risk, risks_of

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class StatedFacts:
    """The facts before and after a change. `gap` says why they cannot be compared, "" if they can,
    or if the program states none.
    """

    before: Subjects
    after: Subjects
    gap: str = ""
    real_before: Subjects = field(default_factory=dict)
    real_after: Subjects = field(default_factory=dict)
    """The same facts by the same names, with the values that a report hides."""


def stated_facts(preview: Preview) -> StatedFacts:
    step = next((each for each in preview.steps if each.type == STACK_TYPE), None)
    old, new = (step.before, step.after) if step else (None, None)
    try:
        before, after = (None if side is None else read(side.outputs) for side in (old, new))
    except ValueError as error:
        return StatedFacts({}, {}, clean(str(error)))
    if preview.form == "digest":
        return StatedFacts(
            {},
            {},
            "the digest of a preview has no facts. Give the events (inferplan docs pull-requests).",
        )
    if before is None and after is None:
        return StatedFacts({}, {})
    ended_early = preview.result not in ("", "succeeded") and not preview.has_final_outputs
    if new is not None and (after is None or preview.incomplete or ended_early):
        return StatedFacts(
            {}, {}, "the program ended before it stated the new facts, or no longer states them"
        )
    if before is None and old is not None:
        return StatedFacts({}, {}, "the stack was last updated by a version without facts")
    real = (_real(side, shown or {}) for side, shown in ((old, before), (new, after)))
    return StatedFacts(before or {}, after or {}, "", *real)


def _real(side: Side | None, shown: Subjects) -> Subjects:
    """The real facts of `side` by the names of those that are `shown`."""
    values = (read({OUTPUT: side.facts}) or {}).values() if side else ()
    return dict(zip(shown, values, strict=True)) if len(values) == len(shown) else {}


def fact_risks(preview: Preview, facts: StatedFacts) -> Iterator[Risk]:
    if facts.gap:
        consequence = (
            "lost access, other weights and less capacity show only in single resources: read their"
            " properties"
        )
        yield _risk(
            "stack",
            preview.stack,
            "states no facts to compare",
            facts.gap,
            consequence,
            weight=DISRUPTIVE,
        )
    for kind, name in sorted({*facts.before, *facts.after}):
        yield from _of_subject(kind, name, facts)
        if (
            facts.before
            and (kind, name) not in facts.before
            and (meaning := meaning_of(f"fact:{kind}", "create"))
        ):
            yield _risk(
                kind,
                name,
                "is new",
                "declared",
                meaning.consequence,
                weight=meaning.weight,
                order=meaning.order,
            )


def _of_subject(kind: str, name: str, facts: StatedFacts) -> Iterator[Risk]:
    key = (kind, name)
    old, new = facts.before.get(key), facts.after.get(key)
    if old == new:
        return
    type_ = f"fact:{kind}"
    if new is None:
        if meaning := meaning_of(type_, "delete"):
            yield _risk(
                kind,
                name,
                "is removed",
                "no longer declared",
                meaning.consequence,
                weight=meaning.weight,
                order=meaning.order,
            )
        return
    op = "create" if old is None else "update"
    urn = f"urn:pulumi:s::p::{type_}::{name}"
    step, real = (
        Step(
            op=op,
            urn=urn,
            type=type_,
            old=State(custom=True, inputs=was or {}),
            new=State(custom=True, inputs=will or {}),
        )
        for was, will in (
            (old, new),
            (facts.real_before.get(key, old), facts.real_after.get(key, new)),
        )
    )
    yield from (each for each in risks_of(step, (), real) if each.what != "changes")
    meaning = None if old is None else meaning_of(type_, "change")
    if meaning is None:
        return
    before, after = (leaves(veil(each)) for each in (old, new))
    for path in sorted({*before, *after}):
        was, will = (show(each[path]) if path in each else "" for each in (before, after))
        if was != will and not any(
            rule.path.fullmatch(path) for rule in rules_for(type_) if not rule.rest
        ):
            cause = f"{clean(path)}: {transition(was, will, _LONGEST)}"
            yield _risk(
                kind,
                name,
                "changes",
                cause,
                meaning.consequence,
                weight=meaning.weight,
                order=meaning.order,
            )


def _risk(
    kind: str, name: str, what: str, cause: str, consequence: str, *, weight: int, order: int = 0
) -> Risk:
    names = {"kind": clean(kind), "name": clean(name), "urn": clean(f"{kind} {name}")}
    return Risk(
        weight=weight, what=what, cause=cause, consequence=consequence, order=order, **names
    )
