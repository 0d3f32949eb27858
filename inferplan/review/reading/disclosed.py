"""A step of the engine without the values that a report must not show."""

from typing import Any

from inferplan.kube.disclosure.disclosure import (
    Copies,
    disclosed,
    disclosed_path,
    hidden_values,
)
from inferplan.kube.disclosure.sharing import shared_with
from inferplan.kube.facts import STACK_TYPE
from inferplan.kube.paths import MISSING
from inferplan.pulumi_engine.reading.events import State, Step

_UNCHANGED = ("same", "read")


def disclosed_step(step: Step) -> Step:
    """A copy of `step` with placeholders for hidden values; those that change say so. Nothing of an
    unchanged resource is shown.
    """
    if step.op in _UNCHANGED and step.type != STACK_TYPE:
        return step
    copies: Copies = {}
    old = step.old and _state(step.old, step.type, None, copies)
    new = step.new and _state(step.new, step.type, step.old, copies)
    diff = {disclosed_path(path): entry for path, entry in step.detailed_diff.items()}
    paths = {each: tuple(map(disclosed_path, getattr(step, each))) for each in ("keys", "diffs")}
    return step.model_copy(update={"old": old, "new": new, "detailed_diff": diff, **paths})


def with_shared_parts(step: Step) -> Step:
    """`step` with one object for each part that its inputs and outputs, before and after, share."""
    if step.op in _UNCHANGED:
        return step
    old = step.old and _sharing(step.old, None)
    return step.model_copy(update={"old": old, "new": step.new and _sharing(step.new, old)})


def _sharing(state: State, before: State | None) -> State:
    inputs, outputs = state.inputs, state.outputs
    inputs = shared_with(inputs, before.inputs) if before else inputs
    outputs = shared_with(outputs, inputs)
    outputs = shared_with(outputs, before.outputs) if before else outputs
    return state.model_copy(update={"inputs": inputs, "outputs": outputs})


def _state(state: State, type_: str, before: State | None, copies: Copies) -> State:
    inputs = _part(state.inputs, type_, before.inputs if before else None, copies)
    # What a provider returned is compared with what the program asked for.
    outputs = _part(state.outputs, type_, before.outputs if before else state.inputs, copies)
    return state.model_copy(update={"inputs": inputs, "outputs": outputs})


def _part(
    value: dict[str, Any] | None, type_: str, before: dict[str, Any] | None, copies: Copies
) -> dict[str, Any] | None:
    if value is None:
        return None
    return disclosed(value, type_, before=MISSING if before is None else before, copies=copies)


def hidden_in(step: Step, shown: Step) -> frozenset[str]:
    """The values of `step` that `shown`, its copy, hides."""
    if step is shown:
        return frozenset()
    sides = ((step.old, shown.old), (step.new, shown.new))
    parts = [
        (getattr(raw, part), getattr(copy, part))
        for raw, copy in sides
        if raw and copy
        for part in ("inputs", "outputs")
    ]
    distinct = {(id(raw), id(copy)): (raw, copy) for raw, copy in parts}
    return frozenset(each for pair in distinct.values() for each in hidden_values(*pair))
