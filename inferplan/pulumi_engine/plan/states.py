"""Saved plans: the resources that a program declared, masked, as JSON; equal states give equal
bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from inferplan.pulumi_engine.recording import Diagnostic, Options, Recording, Registration, Resource
from inferplan.pulumi_engine.values import from_json, mask, to_json

FORMAT = "inferplan-plan/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState(Resource):
    """The state of one resource in a plan: `inputs` are masked, and the options that an engine acts
    on are next to them.
    """

    version: str = ""
    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool = False
    delete_timeout: str = ""
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


_FIELDS = tuple(each.name for each in fields(ResourceState))
_OF_RESOURCE = tuple(each.name for each in fields(Resource))
_OF_OPTIONS = tuple(each.name for each in fields(Options) if each.name in _FIELDS)


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
    """The storable state of one registration; `key` keys the digests of its secrets."""
    options = registration.options
    values: dict[str, Any] = {name: getattr(registration, name) for name in _OF_RESOURCE}
    values |= {name: getattr(options, name) for name in _OF_OPTIONS}
    values["inputs"] = mask(registration.inputs, urn=registration.urn, key=key)
    return ResourceState(**values, delete_timeout=options.custom_timeouts.delete or "")


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
        raise ValueError(
            f"not a saved plan: {error} is missing or misplaced; create one with `inferplan plan`"
        ) from error


_LISTS = ("dependencies", "ignore_changes", "replace_on_changes", "aliases")


def resource_to_json(state: ResourceState) -> dict[str, Any]:
    """`state` as plain JSON values, digests included."""
    values = {name: getattr(state, name) for name in _FIELDS}
    document = {
        name: list(value) if name in _LISTS else value
        for name, value in values.items()
        if value or name in ("inputs", "custom")
    }
    document["inputs"] = to_json(state.inputs, digests=True)
    return document


def resource_from_json(document: Mapping[str, Any]) -> ResourceState:
    """The reverse of `resource_to_json`."""
    values: dict[str, Any] = {
        name: tuple(document[name]) if name in _LISTS else document[name]
        for name in _FIELDS
        if name in document
    }
    values["inputs"] = from_json(document["inputs"])
    return ResourceState(**values)
