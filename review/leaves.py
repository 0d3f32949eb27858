"""The values in a resource's inputs by path, as rules about properties name them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from review.paths import text_of

_DEEPEST = 40


def leaves(value: Any) -> dict[str, Any]:
    """Every value inside `value` that is neither a map nor a list of maps, by its path.

    Items of a list that have a `name` stand under it, `spec.containers[server].image`, so that a rule need not know their
    order; JSON in strings is read as what it says.
    """
    return dict(_leaves(value, "", 0))


def decoded(text: str) -> Any:
    """What the JSON map or list in `text` says; `text` itself where it is none."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, str):
        read = decoded(value)
        if read is not value:
            value = read
    if depth < _DEEPEST and isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, _joined(path, key), depth + 1)
    elif depth < _DEEPEST and isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            name = item.get("name") if isinstance(item, dict) else None
            yield from _leaves(item, f"{path}[{name if isinstance(name, str) else index}]", depth + 1)
    elif path:
        yield path, value


def _joined(path: str, key: str) -> str:
    try:
        spelled = text_of((key,))
    except ValueError:
        spelled = key
    return spelled if not path or (spelled.startswith("[") and not path) else f"{path}{'' if spelled.startswith('[') else '.'}{spelled}"
