"""Saved plans: the resources that a program declared, masked, as JSON; equal states give equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.engine.wire.masking import from_json, mask, to_json
from rehearsal.engine.wire.recording import Diagnostic, Recording, Registration

FORMAT = "inferplan-plan/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState:
    """The state of one resource in a plan; `inputs` are masked."""

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
    """The states of one run of a program, as a plan saves and compares them."""

    project: str
    stack: str
    resources: tuple[ResourceState, ...]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    placeholders: bool | None = None
    """True if the program got placeholders instead of its secrets, None if that is not recorded."""


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


def save(states: States) -> bytes:
    """`states` as JSON; equal states give equal bytes."""
    document = {
        "format": FORMAT,
        "project": states.project,
        "stack": states.stack,
        "config": dict(states.config),
        "outputs": to_json(dict(states.outputs), digests=True),
        "resources": [resource_to_json(each) for each in states.resources],
    } | ({} if states.placeholders is None else {"placeholders": states.placeholders})
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def load(saved: bytes) -> States:
    """The states in `saved`. Raises ValueError for other files."""
    try:
        document = json.loads(saved)
    except ValueError as error:
        raise ValueError(f"not a saved plan: {error}; create one with `inferplan plan`") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"not a saved plan of format {FORMAT}; create one with `inferplan plan`")
    try:
        return States(
            project=document["project"],
            stack=document["stack"],
            resources=tuple(resource_from_json(each) for each in document["resources"]),
            outputs=from_json(document["outputs"]),
            config=document["config"],
            placeholders=document.get("placeholders"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a saved plan: {error} is missing or misplaced; create one with `inferplan plan`") from error


_LISTS = ("dependencies", "ignore_changes", "replace_on_changes", "aliases")


def resource_to_json(state: ResourceState) -> dict[str, Any]:
    """`state` as plain JSON values, digests included."""
    fields = {name: getattr(state, name) for name in ResourceState.__slots__}
    document = {name: list(value) if name in _LISTS else value for name, value in fields.items() if value or name in ("inputs", "custom")}
    document["inputs"] = to_json(state.inputs, digests=True)
    return document


def resource_from_json(document: Mapping[str, Any]) -> ResourceState:
    """The reverse of `resource_to_json`."""
    values = {name: document[name] for name in ResourceState.__slots__ if name in document}
    fields: dict[str, Any] = {name: tuple(value) if name in _LISTS else value for name, value in values.items()}
    fields["inputs"] = from_json(document["inputs"])
    return ResourceState(**fields)
