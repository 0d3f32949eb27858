"""A plan: the states that a program wants, set against those of an earlier plan, and its storage as JSON.

Needs no cluster and asks none: it says what changes in the *declaration*. Saved plans are deterministic bytes and
hold no secret in clear (see `masking`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rehearsal.engine.change import Change, compare
from rehearsal.engine.masking import from_json, mask, to_json
from rehearsal.engine.recording import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rehearsal.engine.recording import Recording, Registration

FORMAT = "inferplan-plan/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState:
    """One resource as a plan keeps it; `inputs` are masked."""

    urn: str
    type: str
    custom: bool
    inputs: dict[str, Any]
    parent: str = ""
    dependencies: tuple[str, ...] = ()
    provider: str = ""
    version: str = ""
    read: bool = False
    id: str = ""
    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool = False
    delete_timeout: str = ""
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Everything one run of a program declared, masked: what is saved and compared."""

    project: str
    stack: str
    resources: tuple[ResourceState, ...]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens to one resource. `op` is the engine's word: create, update, replace, delete, same or read."""

    op: str
    urn: str
    old: ResourceState | None
    new: ResourceState | None
    change: Change | None = None


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


def state_of(registration: Registration, key: bytes | None = None) -> ResourceState:
    """The storable state of one registration."""
    options = registration.options
    return ResourceState(
        urn=registration.urn,
        type=registration.type,
        custom=registration.custom,
        parent=registration.parent,
        inputs=mask(registration.inputs, urn=registration.urn, key=key),
        dependencies=registration.dependencies,
        provider=registration.provider,
        version=options.version,
        read=registration.read,
        id=registration.id,
        protect=options.protect,
        retain_on_delete=options.retain_on_delete,
        delete_before_replace=options.delete_before_replace,
        delete_timeout=options.custom_timeouts.delete or "",
        ignore_changes=options.ignore_changes,
        replace_on_changes=options.replace_on_changes,
        aliases=options.aliases,
    )


def states_of(recording: Recording, key: bytes | None = None) -> States:
    """The storable states of a recording; `key` keys the digests of its secrets."""
    return States(
        project=recording.project,
        stack=recording.stack,
        resources=tuple(state_of(each, key) for each in recording.registrations),
        outputs=mask(dict(recording.outputs), urn=recording.stack_urn, key=key),
        config=dict(recording.config),
        diagnostics=recording.diagnostics,
    )


def make_plan(recording: Recording, before: States | None = None, *, key: bytes | None = None) -> Plan:
    """The plan that leads from `before` (None: from nothing) to what `recording` declares.

    `key` must be the one that `before` was made with, else every secret looks changed.
    """
    states = states_of(recording, key)
    known = {each.urn: each for each in before.resources} if before else {}
    by_urn = {each.urn: each for each in states.resources}
    claimed: set[str] = set()
    steps = []
    for new in states.resources:
        old = next((known[urn] for urn in (new.urn, *new.aliases) if urn in known and urn not in claimed), None)
        if old is not None:
            claimed.add(old.urn)
        steps.append(_step(old, new, by_urn))
    gone = [each for each in (before.resources if before else ()) if each.urn not in claimed]
    steps.extend(Step(op="delete", urn=each.urn, old=each, new=None) for each in reversed(gone))
    return Plan(states=states, before=before, steps=tuple(steps))


def _step(old: ResourceState | None, new: ResourceState, by_urn: Mapping[str, ResourceState]) -> Step:
    if new.read:
        return Step(op="read", urn=new.urn, old=old, new=new)
    if old is None:
        return Step(op="create", urn=new.urn, old=None, new=new)
    provider = by_urn.get(new.provider)
    change = compare(old, new, provider=provider.inputs if provider else {})
    return Step(op=change.op, urn=new.urn, old=old, new=new, change=change)


def save(states: States) -> bytes:
    """`states` as JSON, the same bytes for the same states."""
    document = {
        "format": FORMAT,
        "project": states.project,
        "stack": states.stack,
        "config": dict(states.config),
        "outputs": to_json(dict(states.outputs), digests=True),
        "resources": [resource_to_json(each) for each in states.resources],
    }
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def load(saved: bytes) -> States:
    """The states in `saved`. Raises ValueError when it is no plan of this format."""
    try:
        document = json.loads(saved)
    except ValueError as error:
        raise ValueError(f"this is no saved plan: {error}; make one with `inferplan plan`") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"this is no saved plan of format {FORMAT}; make one with `inferplan plan`")
    try:
        return States(
            project=document["project"],
            stack=document["stack"],
            resources=tuple(resource_from_json(each) for each in document["resources"]),
            outputs=from_json(document["outputs"]),
            config=document["config"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no saved plan: {error} is missing or misplaced; make one with `inferplan plan`") from error


_LISTS = ("dependencies", "ignore_changes", "replace_on_changes", "aliases")


def resource_to_json(state: ResourceState) -> dict[str, Any]:
    """`state` as plain JSON values, digests included."""
    fields = {name: getattr(state, name) for name in ResourceState.__slots__}
    kept = {name: list(value) if name in _LISTS else value for name, value in fields.items() if value or name in ("inputs", "custom")}
    kept["inputs"] = to_json(state.inputs, digests=True)
    return kept


def resource_from_json(document: Mapping[str, Any]) -> ResourceState:
    """The reverse of `resource_to_json`."""
    known = {name: document[name] for name in ResourceState.__slots__ if name in document}
    fields: dict[str, Any] = {name: tuple(value) if name in _LISTS else value for name, value in known.items()}
    fields["inputs"] = from_json(document["inputs"])
    return ResourceState(**fields)
