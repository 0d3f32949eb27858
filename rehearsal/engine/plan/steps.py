"""A plan: the states that a program wants, set against those of an earlier plan, in steps.

Needs no cluster and asks none: it says what changes in the *declaration*, and what the engine would reject of that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rehearsal.engine.plan.change import Change, compare
from rehearsal.engine.plan.states import ResourceState, States, states_of
from rehearsal.engine.providers.kubernetes import is_object, is_patch
from rehearsal.engine.wire.urns import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rehearsal.engine.wire.recording import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens to one resource. `op` is the engine's word: create, update, replace, delete, same or read."""

    op: str
    urn: str
    old: ResourceState | None
    new: ResourceState | None
    change: Change | None = None
    rejected: tuple[str, str] | None = None
    """What the engine would say no with, and what to do; None where it takes the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps in the order of registration; deletions follow, dependents before what they depend on."""

    states: States
    before: States | None
    steps: tuple[Step, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many resources meet each op, the stack itself not counted."""
        counts: dict[str, int] = {}
        for step in self.steps:
            counts[step.op] = counts.get(step.op, 0) + 1
        return dict(sorted(counts.items()))

    @property
    def rejected(self) -> tuple[tuple[str, str], ...]:
        """What the engine would reject, each with what to do."""
        return tuple(step.rejected for step in self.steps if step.rejected is not None)


def make_plan(recording: Recording, before: States | None = None, *, key: bytes | None = None) -> Plan:
    """The plan that leads from `before` (None: from nothing) to what `recording` declares.

    `key` must be the one that `before` was made with, else every secret looks changed.
    """
    states = states_of(recording, key)
    known = {each.urn: each for each in before.resources} if before else {}
    by_urn = {each.urn: each for each in states.resources}
    sources = {each.urn: each.property_dependencies for each in recording}
    # The objects of another stack may be on another cluster, so they block no creation here.
    owned = [each for each in (before.resources if before else ()) if _stack(each.urn) == recording.stack]
    holders = {identity: each.urn for each in owned if (identity := _identity(each)) is not None}
    claimed: set[str] = set()
    anew: set[str] = set()
    steps = []
    for new in states.resources:
        old = next((known[urn] for urn in (new.urn, *new.aliases) if urn in known and urn not in claimed), None)
        if old is not None:
            claimed.add(old.urn)
        renewed = [name for name, urns in sources[new.urn].items() if not anew.isdisjoint(urns)]
        step = _step(old, new, by_urn, renewed)
        if step.op in ("create", "replace"):
            anew.add(new.urn)
            step = replace(step, rejected=_rejection(old, new, holders))
        steps.append(step)
    gone = [each for each in (before.resources if before else ()) if each.urn not in claimed]
    steps.extend(Step(op="delete", urn=each.urn, old=each, new=None) for each in reversed(gone))
    return Plan(states=states, before=before, steps=tuple(steps))


def _stack(urn: str) -> str:
    return urn.split("::", maxsplit=1)[0].rpartition(":")[2]


def _identity(state: ResourceState) -> tuple[str, str, str, str] | None:
    """API group, kind, namespace and name of an object; None where there is none, or a part is not known yet."""
    if not is_object(state.type, state.inputs) or is_patch(state.type) or state.read:
        return None
    metadata = state.inputs.get("metadata")
    name, namespace = (metadata.get("name"), metadata.get("namespace", "default")) if isinstance(metadata, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(namespace, str):
        return None
    return state.inputs["apiVersion"].rpartition("/")[0], state.inputs["kind"], namespace, name


def _rejection(old: ResourceState | None, new: ResourceState, holders: Mapping[tuple[str, str, str, str], str]) -> tuple[str, str] | None:
    """Why `new` cannot be created: another URN has its object until the end of the update, when deletions are done."""
    identity = _identity(new)
    holder = None if identity is None else holders.get(identity)
    if identity is None or holder is None or (old is not None and holder == old.urn):
        return None
    _, kind, namespace, name = identity
    return already_exists(f"{kind} {namespace}/{name}" if "namespace" in new.inputs["metadata"] else f"{kind} {name}", holder, new.urn)


def _step(old: ResourceState | None, new: ResourceState, by_urn: Mapping[str, ResourceState], renewed: list[str]) -> Step:
    if new.read:
        return Step(op="read", urn=new.urn, old=old, new=new)
    if old is None:
        return Step(op="create", urn=new.urn, old=None, new=new)
    provider = by_urn.get(new.provider)
    change = compare(old, new, provider=provider.inputs if provider else {}, renewed=renewed)
    return Step(op=change.op, urn=new.urn, old=old, new=new, change=change)


def already_exists(text: str, holder: str, urn: str) -> tuple[str, str]:
    """What is wrong and what to do when the object `text` is created under `urn` while `holder`, another URN or the same, has it."""
    if holder == urn:
        reason = "the one of an earlier update still waits to be deleted, which happens when an update succeeds"
        return (
            f"{text} already exists: {reason}",
            "apply the last state once more to its end, then this one; or give the object a name of its own",
        )
    stack, others = urn.split("::", maxsplit=1)[0].rpartition(":")[2], holder.split("::", maxsplit=1)[0].rpartition(":")[2]
    if stack != others:
        return f"{text} already exists: stack {others} has it", "give it another name, or another namespace"
    return (
        f"{text} already exists: the resource {_spelled(holder)} has it, and Pulumi creates before it deletes",
        "keep that resource's URN, name it in `aliases`, or update twice: first without the object, then with it",
    )


def _spelled(urn: str) -> str:
    return f"{urn.split('::')[2]} {name_of(urn)!r}"
