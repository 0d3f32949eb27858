"""Resources as the policy SDK hands them over, as plain data with `UNKNOWN` marks. It never lets the SDK's own error escape."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from policies.engine.fields import UNKNOWN
from policies.engine.resource import Resource

_STACK_OF = re.compile(r"urn:pulumi:([^:]+)::")
# Where the Kubernetes provider keeps an object's inputs in its outputs.
_KEPT_INPUTS = "__inputs"
# The SDK's marks for unknowns of each type (pulumi_policy/proxy.py): where secrets keep their marks, unknowns arrive as these.
_UNKNOWNS = frozenset(
    [
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    ]
)


def plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    """`properties`, which raise at every unknown, as plain data; secrets are in plain text, as for every analyzer."""
    return _plain_map(properties)


def _plain_map(properties: Mapping[str, Any]) -> dict[str, Any]:
    from pulumi_policy.proxy import UnknownValueError

    told: dict[str, Any] = {}
    for key in properties:
        try:
            told[key] = _plain(properties[key])
        except UnknownValueError:
            told[key] = UNKNOWN
    return told


def _plain_list(items: Sequence[Any]) -> list[Any]:
    from pulumi_policy.proxy import UnknownValueError

    told: list[Any] = []
    for position in range(len(items)):
        try:
            told.append(_plain(items[position]))
        except UnknownValueError:
            told.append(UNKNOWN)
    return told


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return UNKNOWN if value in _UNKNOWNS else value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return _plain_map(value)
    return _plain_list(value) if isinstance(value, Sequence) else value


def inputs_kept_by(given: Any) -> Mapping[str, Any]:
    """The inputs in the outputs that a stack policy is given, or the outputs where the provider keeps no inputs.

    Outputs hold what the server filled in, and what controllers write while the object lives; rules judge what is declared.
    """
    properties = plain(given.props)
    kept = properties.get(_KEPT_INPUTS) if given.resource_type.startswith("kubernetes:") else None
    return kept if isinstance(kept, dict) else properties


def resource_of(given: Any, inputs: Mapping[str, Any]) -> Resource:
    """The resource that the SDK hands over, with `inputs` in plain data."""
    options, provider = given.opts, given.provider
    urn = given.urn
    dependencies = tuple(each.urn for each in getattr(given, "dependencies", ()))
    sources = getattr(given, "property_dependencies", {})
    return Resource(
        type=given.resource_type,
        urn=urn,
        name=given.name,
        inputs=inputs,
        parent=options.parent or "",
        dependencies=dependencies,
        property_dependencies={name: tuple(each.urn for each in listed) for name, listed in sources.items()},
        provider=provider.urn if provider is not None else "",
        protect=options.protect,
    )


def stack_name(urn: str) -> str:
    """The stack that a URN is of."""
    match = _STACK_OF.match(urn)
    return match.group(1) if match else ""


def whole(value: Any) -> Any:
    """`value` with whole numbers as such: the protocol carries every number as a float."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list) else value
