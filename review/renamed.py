"""Puts together a deletion under one name and a creation under another, for an object whose name holds a digest of its content.

To the engine these are a deletion and a creation; to a reader the object is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from review.risk import Risk, risks_of
from review.summary import StepSummary, without_digest


def stack_risks(steps: Sequence[StepSummary]) -> Iterator[Risk]:
    """The risks of `steps`; a deletion and the creation that replaces it count as one replacement."""
    deleted: dict[tuple[str, str, str], list[StepSummary]] = {}
    created: dict[tuple[str, str, str], list[StepSummary]] = {}
    for each in steps:
        if each.step is not None:
            (deleted if each.op == "delete" else created).setdefault(_key(each), []).append(each)
    pairs = {
        old[0].urn: new[0].step for key, old in deleted.items() if len(old) == 1 and len(new := created.get(key, [])) == 1 and new[0].step
    }
    replacing = {new.urn for new in pairs.values()}
    for each in steps:
        new = pairs.get(each.urn) if each.op == "delete" else None
        if new is not None and each.step is not None:
            yield from risks_of(replace(new, op="replace", old=each.step.old, keys=("metadata.name",)), ())
        elif each.op != "create" or each.urn not in replacing:
            yield from each.risks


def _key(step: StepSummary) -> tuple[str, str, str]:
    return step.type, step.parent, without_digest(step.name)
