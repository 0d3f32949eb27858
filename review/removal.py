"""Separates the removal of unused resources from the removal of resources that others need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from review.kinds import ROUTINE, owned
from review.preview import Preview
from review.risk import Risk
from review.summary import Side, StepSummary
from review.text import clean

_GOES = ("delete", "discard")
_SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type, not a secret


def softened(risks: Iterable[Risk], preview: Preview) -> Iterator[Risk]:
    """Yield `risks`, with those of resources that are removed together with all their users as routine.

    This applies to a Secret that no pod uses any longer, and to resources of a component that is removed as a whole: the
    component's own risk names who loses access.
    """
    gone = {step.urn: step for step in preview.steps if step.op in _GOES}
    stays = _used(step.side for step in preview.steps if step.op not in _GOES) if gone else set()
    went = _used(step.old for step in gone.values())
    for each in risks:
        step = gone.get(each.urn) if each.what == "deleted" and not each.is_rejected else None
        if step is None or not owned(step.type):
            yield each
        elif step.type == _SECRET:
            names = _names(step)
            unused = not stays.isdisjoint(names) or went.isdisjoint(names)
            yield each if unused else replace(each, weight=ROUTINE, consequence="no pod of the stack uses it any longer")
        elif (owner := gone.get(step.parent)) is not None and not (owner.old and owner.old.custom) and stays.isdisjoint(_names(step)):
            yield replace(each, weight=ROUTINE, consequence=f"goes with {clean(owner.kind)} {clean(owner.name)}")
        else:
            yield each


def _names(step: StepSummary) -> set[str]:
    """Names by which other resources refer to `step`: its URN and the name of its Secret."""
    return {step.urn, *(f"name {name}" for name in (step.old.names if step.old else ()))}


def _used(sides: Iterable[Side | None]) -> set[str]:
    """URNs and names of Secrets that `sides` refer to."""
    used: set[str] = set()
    for side in sides:
        if side is not None:
            used.update(side.dependencies)
            used.update(f"name {name}" for name in side.secrets)
    return used
