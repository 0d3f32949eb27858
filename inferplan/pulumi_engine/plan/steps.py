"""The plan of an update, without a cluster: one step per resource, from an earlier plan to what the
program declares.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from inferplan.pulumi_engine.plan.change import Change, compare
from inferplan.pulumi_engine.plan.states import ResourceState, States, states_of
from inferplan.pulumi_engine.providers.kubernetes import identity
from inferplan.pulumi_engine.recording import Recording, name_of, qualified_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The step of one resource: `op` as the engine names it, and `rejected`, the problem and remedy
    if the engine would reject it.
    """

    op: str
    urn: str
    old: ResourceState | None
    new: ResourceState | None
    change: Change | None = None
    rejected: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps in the order of registration; deletions follow, dependents first."""

    states: States
    before: States | None
    steps: tuple[Step, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of resources by op, without the stack itself."""
        return dict(sorted(Counter(step.op for step in self.steps).items()))

    @property
    def rejected(self) -> tuple[tuple[str, str], ...]:
        """The steps that the engine would reject, as problem and remedy."""
        return tuple(step.rejected for step in self.steps if step.rejected is not None)


def make_plan(
    recording: Recording, before: States | None = None, *, key: bytes | None = None
) -> Plan:
    """The plan from `before` (None: nothing exists) to `recording`; with another `key` than that of
    `before`, all secrets change.
    """
    states = states_of(recording, key)
    old = before.resources if before else ()
    old_states = {each.urn: each for each in old}
    by_urn = {each.urn: each for each in states.resources}
    sources = {each.urn: each.property_dependencies for each in recording}
    # The objects of another stack may be in another cluster, so they prevent no creation.
    holders = {_identity(each): each.urn for each in old if _stack(each.urn) == recording.stack}
    claimed: set[str] = set()
    created: set[str] = set()
    steps = []
    for new in states.resources:
        former = next(
            (
                old_states[urn]
                for urn in (new.urn, *new.aliases)
                if urn in old_states and urn not in claimed
            ),
            None,
        )
        if former is not None:
            claimed.add(former.urn)
        renewed = [name for name, urns in sources[new.urn].items() if not created.isdisjoint(urns)]
        step = _step(former, new, by_urn, renewed)
        if step.op in ("create", "replace"):
            created.add(new.urn)
            step = replace(step, rejected=_rejection(former, new, holders))
        steps.append(step)
    steps.extend(
        Step(op="delete", urn=each.urn, old=each, new=None)
        for each in reversed(old)
        if each.urn not in claimed
    )
    return Plan(states=states, before=before, steps=tuple(steps))


def _stack(urn: str) -> str:
    return urn.split("::", maxsplit=1)[0].rpartition(":")[2]


def _identity(state: ResourceState) -> tuple[str, str, str, str] | None:
    return None if state.read else identity(state.type, state.inputs, "default")


def _rejection(
    old: ResourceState | None, new: ResourceState, holders: Mapping[Any, str]
) -> tuple[str, str] | None:
    """Why `new` cannot be created: another URN has its object until deletions at the end of the
    update.
    """
    wanted = _identity(new)
    holder = holders.get(wanted)
    if wanted is None or holder is None or (old is not None and holder == old.urn):
        return None
    _, kind, namespace, name = wanted
    return already_exists(
        f"{kind} {namespace}/{name}" if "namespace" in new.inputs["metadata"] else f"{kind} {name}",
        holder,
        new.urn,
    )


def _step(
    old: ResourceState | None,
    new: ResourceState,
    by_urn: Mapping[str, ResourceState],
    renewed: list[str],
) -> Step:
    if new.read:
        return Step(op="read", urn=new.urn, old=old, new=new)
    if old is None:
        return Step(op="create", urn=new.urn, old=None, new=new)
    provider = by_urn.get(new.provider)
    change = compare(old, new, provider=provider.inputs if provider else {}, renewed=renewed)
    return Step(op=change.op, urn=new.urn, old=old, new=new, change=change)


def already_exists(text: str, holder: str, urn: str) -> tuple[str, str]:
    """Problem and remedy for creating the object `text` under `urn` while the URN `holder` has it."""
    if holder == urn:
        return (
            (
                f"{text} already exists: the object of an earlier update is deleted when an update"
                " succeeds"
            ),
            (
                "apply the last state again until it succeeds, then this one; or give the object"
                " another name"
            ),
        )
    if _stack(urn) != _stack(holder):
        return (
            f"{text} already exists: it belongs to stack {_stack(holder)}",
            "give it another name, or another namespace",
        )
    return (
        (
            f"{text} already exists: it belongs to the resource {qualified_type(holder)}"
            f" {name_of(holder)!r}, and Pulumi creates before it deletes"
        ),
        (
            "keep that resource's URN, list it in `aliases`, or update twice: first without the"
            " object, then with it"
        ),
    )
