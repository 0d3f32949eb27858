"""Lost access: compares who may call which model with which keys before and after a change. Without
a gateway no model can be called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from inferplan.documents.text import clean
from inferplan.kube.facts import Subjects
from inferplan.kube.names import INSTANCE_LABEL
from inferplan.kube.paths import mapping
from inferplan.review.reading.preview import SECRET, Preview
from inferplan.review.risks.facts import StatedFacts
from inferplan.review.steps.kinds import CRITICAL, DISRUPTIVE
from inferplan.review.steps.risk import Risk

_CONSUMER = "consumer-"
_MOST = 999_999


@dataclass(frozen=True, slots=True)
class _Access:
    """Access on one side: consumers by model or route, and key versions by consumer; `two_seeds` is
    True while keys of both seeds are valid.
    """

    subjects: Mapping[tuple[str, str], tuple[str, ...]]
    keys: Mapping[str, tuple[str, ...]]
    imported: Mapping[str, tuple[str, ...]]
    two_seeds: bool
    records: Mapping[str, _Record]


@dataclass(frozen=True, slots=True)
class _Record:
    """The key versions that a consumer ever had: the highest, and those that are spent."""

    issued: int
    spent: frozenset[int]


def lost_access(preview: Preview, facts: StatedFacts) -> Iterator[Risk]:
    before, after = _access(facts.before), _access(facts.after)
    for (kind, name), consumers in sorted(before.subjects.items()):
        if missing := [
            each for each in consumers if each not in after.subjects.get((kind, name), ())
        ]:
            is_removed = (kind, name) not in after.subjects
            yield Risk(
                weight=CRITICAL,
                what=f"{_listed(missing)} can no longer call",
                kind=kind,
                name=name,
                urn=f"{kind} {name}",
                cause=(
                    f"the {kind} or the gateway is removed"
                    if is_removed
                    else "removed from its consumers"
                ),
                consequence=(
                    "requests fail (404)" if is_removed else "requests with their keys are denied"
                ),
                order=0,
            )
        if gained := [
            each for each in after.subjects.get((kind, name), ()) if each not in consumers
        ]:
            cause, consequence = (
                "added to its consumers",
                (
                    "requests with their keys are answered: the model's data and its cost are"
                    " shared with them"
                ),
            )
            what, urn = f"{_listed(gained)} can now call", f"{kind} {name}"
            yield Risk(
                weight=DISRUPTIVE,
                what=what,
                kind=kind,
                name=name,
                urn=urn,
                cause=cause,
                consequence=consequence,
                order=3,
            )
    yield from (
        *_lost_keys(before, after),
        *_exchanged_keys(before, after),
        *_other_keys(preview, before, after),
    )
    yield from _returned_keys(before, after)


def _lost_keys(before: _Access, after: _Access) -> Iterator[Risk]:
    for consumer, versions in sorted(before.keys.items()):
        missing = [each for each in versions if each not in after.keys.get(consumer, ())]
        if not missing:
            continue
        numbers, plural, pronoun = (
            ", ".join(missing),
            *(("s", "them") if len(missing) > 1 else ("", "it")),
        )
        what = (
            f"key{plural} {numbers}"
            if consumer in after.keys
            else f"every key (key{plural} {numbers})"
        )
        consequence = f"requests that still use {pronoun} are denied (401)"
        yield _keys_risk(
            [consumer], CRITICAL, f"loses {what}", f"version{plural} {numbers} dropped", consequence
        )


def _returned_keys(before: _Access, after: _Access) -> Iterator[Risk]:
    """The risk of revoked keys that become valid again, now or later because nothing records them
    any more.
    """
    for consumer, old in sorted(before.records.items()):
        new = after.records.get(consumer, _Record(0, frozenset()))
        past = {str(each) for each in range(1, old.issued + 1)} - {*before.keys.get(consumer, ())}
        returned = sorted(past & {*after.keys.get(consumer, ())}, key=int)
        if returned:
            cause = (
                f"version{'s' if len(returned) > 1 else ''} {', '.join(returned)} returned to its"
                " keys"
            )
            yield _keys_risk(
                [consumer],
                CRITICAL,
                "revoked keys become valid again for",
                cause,
                "anyone who still has a revoked key can call",
            )
        elif new.issued < old.issued or not old.spent <= new.spent:
            consequence = "a later version is the same key again, so anyone who has it can call"
            yield _keys_risk(
                [consumer],
                CRITICAL,
                "nothing records the revoked keys of",
                "keyHistory is lowered or removed",
                consequence,
            )


def _exchanged_keys(before: _Access, after: _Access) -> Iterator[Risk]:
    """The versions whose key is imported on one side only: another key has the same number."""
    for consumer in sorted({*before.keys} & {*after.keys}):
        stay = {*before.keys[consumer]} & {*after.keys[consumer]}
        if versions := sorted(
            stay & ({*before.imported.get(consumer, ())} ^ {*after.imported.get(consumer, ())})
        ):
            cause = f"importedKeys: version {', '.join(versions)} is imported on one side only"
            yield _keys_risk(
                [consumer],
                CRITICAL,
                "gets another key for a version",
                cause,
                "requests with the old key are denied (401)",
            )


def _other_keys(preview: Preview, before: _Access, after: _Access) -> Iterator[Risk]:
    """The risk of other keys for the same versions, and of the end of a rotation of the seed."""
    consumers = [
        each
        for each in _changed_secrets(preview)
        if before.keys.get(each) and before.keys.get(each) == after.keys.get(each)
    ]
    if consumers:
        seeds = "apiKeySeed or an imported key changed: the same key versions have other values"
        weight, consequence = (
            CRITICAL,
            "requests with the old keys are denied (401) until every client has its new key",
        )
        if after.two_seeds:
            weight = DISRUPTIVE
            consequence = (
                "the old keys stay valid until previousApiKeySeed is removed: give every client its"
                " new key before"
            )
        yield _keys_risk(consumers, weight, "all keys change for", seeds, consequence)
    remaining = sorted({*before.keys} & {*after.keys})
    if remaining and before.two_seeds and not after.two_seeds:
        ended = "previousApiKeySeed is removed"
        yield _keys_risk(
            remaining,
            CRITICAL,
            "keys of the previous seed end for",
            ended,
            "requests with them are denied (401)",
        )


def _keys_risk(consumers: list[str], weight: int, what: str, cause: str, consequence: str) -> Risk:
    kind = "consumer" if len(consumers) == 1 else "consumers"
    return Risk(
        weight=weight,
        what=what,
        kind=kind,
        name=_listed(consumers),
        urn="",
        cause=cause,
        consequence=consequence,
        order=1,
    )


def _changed_secrets(preview: Preview) -> Iterator[str]:
    for step in preview.changed:
        if (
            step.type != SECRET
            or step.op not in ("update", "replace")
            or step.old is None
            or step.new is None
        ):
            continue
        old, new = (
            mapping(side.inputs, "metadata", "labels").get(INSTANCE_LABEL, "")
            for side in (step.old, step.new)
        )
        if isinstance(new, str) and old == new and new.startswith(_CONSUMER) and step.data_changes:
            yield clean(new.removeprefix(_CONSUMER))


def _access(facts: Subjects) -> _Access:
    keys, imported = (
        {
            clean(name): _texts(stated.get(fact))
            for (kind, name), stated in facts.items()
            if kind == "consumer"
        }
        for fact in ("keys", "importedKeys")
    )
    subjects = {
        (kind, clean(name)): _texts(each.get("consumers"))
        for (kind, name), each in facts.items()
        if kind in ("model", "route")
    }
    has_gateway = any(kind == "gateway" for kind, _ in facts)
    stack = next((stated for (kind, _), stated in facts.items() if kind == "stack"), {})
    records = {clean(name): _record(each) for name, each in mapping(stack, "keyHistory").items()}
    return _Access(
        subjects if has_gateway else {}, keys, imported, stack.get("previousSeed") is True, records
    )


def _record(value: Any) -> _Record:
    issued, spent = (mapping(value).get(key) for key in ("issued", "spent"))
    listed = (
        [_version(each) for each in spent]
        if isinstance(spent, list)
        else range(1, _version(spent) + 1)
    )
    return _Record(_version(issued), frozenset(listed))


def _version(value: Any) -> int:
    return min(int(value), _MOST) if isinstance(value, int | float) else 0


def _texts(values: Any) -> tuple[str, ...]:
    # JSON has one kind of number: an engine may write a version as 2.0.
    return (
        tuple(clean(f"{each:g}" if isinstance(each, float) else str(each)) for each in values)
        if isinstance(values, list)
        else ()
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
