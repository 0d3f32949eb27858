"""A step of the engine without the values that a report must not show."""

from typing import Any

from inferplan.kube.disclosure.disclosure import disclosed, disclosed_path, hidden_values
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
    old = step.old and _state(step.old, step.type, None)
    new = step.new and _state(step.new, step.type, step.old)
    diff = {disclosed_path(path): entry for path, entry in step.detailed_diff.items()}
    paths = {each: tuple(map(disclosed_path, getattr(step, each))) for each in ("keys", "diffs")}
    return step.model_copy(update={"old": old, "new": new, "detailed_diff": diff, **paths})


def _state(state: State, type_: str, before: State | None) -> State:
    inputs = _part(state.inputs, type_, before.inputs if before else None)
    # What a provider returned is compared with what the program asked for.
    outputs = _part(state.outputs, type_, (before.outputs if before else state.inputs))
    return state.model_copy(update={"inputs": inputs, "outputs": outputs})


def _part(
    value: dict[str, Any] | None, type_: str, before: dict[str, Any] | None
) -> dict[str, Any] | None:
    return (
        None
        if value is None
        else disclosed(value, type_, before=MISSING if before is None else before)
    )


def hidden_in(step: Step, shown: Step) -> frozenset[str]:
    """The values of `step` that `shown`, its copy, hides."""
    if step is shown:
        return frozenset()
    sides = ((step.old, shown.old), (step.new, shown.new))
    return frozenset(
        each
        for raw, copy in sides
        if raw and copy
        for part in ("inputs", "outputs")
        for each in hidden_values(getattr(raw, part), getattr(copy, part))
    )
