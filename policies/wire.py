"""Properties as the policy SDK hands them over, as plain data with `UNKNOWN` marks. It never lets the SDK's own error escape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policies.engine.fields import UNKNOWN

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
    """`properties`, which raise at every unknown, as plain data; secrets come in clear, as for every analyzer."""
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
