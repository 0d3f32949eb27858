"""Tells the end of what nothing uses any longer from the end of what something needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from review.danger import Danger
from review.declared import mapping
from review.events import State
from review.kinds import ROUTINE, owned
from review.preview import Preview, Step
from review.text import clean

_GOES = ("delete", "discard")
_SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type, not a secret
_NAMES = frozenset({"secretName", "secretRef", "secretKeyRef", "imagePullSecrets", "secret"})


def softened(dangers: Iterable[Danger], preview: Preview) -> Iterator[Danger]:
    """`dangers`, those of things that only matter to what is removed with them as routine.

    That is so for a Secret that pods used and none uses any more, and for what belongs to a component that is removed as
    a whole: who loses something by that is said of the component.
    """
    gone = {step.urn: step for step in preview.steps if step.op in _GOES}
    stays = _used(step.new or step.old for step in preview.steps if step.op not in _GOES)
    went = _used(step.old for step in gone.values())
    for each in dangers:
        step = gone.get(each.urn) if each.what == "deleted" and not each.refused else None
        if step is None or not owned(step.type):
            yield each
        elif step.type == _SECRET:
            names = _names(step)
            unused = not stays.isdisjoint(names) or went.isdisjoint(names)
            yield each if unused else replace(each, weight=ROUTINE, consequence="no pod of the stack uses it any more")
        elif (owner := gone.get(step.parent)) is not None and not (owner.old and owner.old.custom) and stays.isdisjoint(_names(step)):
            yield replace(each, weight=ROUTINE, consequence=f"goes with {clean(owner.kind)} {clean(owner.name)}")
        else:
            yield each


def _names(step: Step) -> set[str]:
    """What others may call the object of `step`: its URN and the name of its Secret."""
    parts = (mapping(part, "metadata").get("name") for part in ((step.old.inputs, step.old.outputs) if step.old else ()))
    return {step.urn, *(f"name {part}" for part in parts if isinstance(part, str))}


def _used(states: Iterable[State | None]) -> set[str]:
    """URNs and names of Secrets that `states` refer to."""
    found: set[str] = set()
    for state in states:
        if state is None:
            continue
        found.update(state.dependencies or ())
        for urns in (state.property_dependencies or {}).values():
            found.update(urns or ())
        if state.type.startswith("kubernetes:") and state.inputs:
            found.update(f"name {name}" for name in _secret_names(state.inputs, within=False, depth=0))
    return found


def _secret_names(value: Any, *, within: bool, depth: int) -> Iterator[str]:
    if depth > 30:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str):
                if key == "secretName" or (within and key == "name"):
                    yield item
            else:
                yield from _secret_names(item, within=key in _NAMES, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _secret_names(item, within=within, depth=depth + 1)
