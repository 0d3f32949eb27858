"""Reads `metadata.managedFields`: which field manager wrote a field, and which fields a manager wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kube.paths import MISSING, Path


@dataclass(frozen=True, slots=True)
class Writer:
    """A field manager, its operation (Apply or Update), the subresource that it wrote ("" for the object itself), and the last time."""

    manager: str
    operation: str
    subresource: str
    time: str


_TAKEN_OVER = ("kubectl", "before-first-apply")
"""Starts of the managers whose fields the provider takes over before it updates an object (pulumi-kubernetes 4.32, fixCSAFieldManagers)."""


def is_taken_over(writer: Writer) -> bool:
    """True if the fields of `writer` become the stack's when an update changes the object."""
    return writer.manager.startswith(_TAKEN_OVER) and writer.operation == "Update" and not writer.subresource


def entries(live: Mapping[str, Any]) -> Iterator[tuple[Writer, Mapping[str, Any]]]:
    """The writers of `live` with their fields in the server's notation (FieldsV1)."""
    for each in live["metadata"].get("managedFields") or ():
        yield Writer(each["manager"], each["operation"], each.get("subresource", ""), each.get("time", "")), each.get("fieldsV1") or {}


def writers(live: Mapping[str, Any], path: Path) -> list[Writer]:
    """The writers of the field at `path` of `live`, the latest first: of the field itself, or of the list or map that it is in."""
    matches = [writer for writer, fields in entries(live) if _writes(live, fields, path)]
    return sorted(matches, key=lambda each: each.time, reverse=True)


def _writes(value: Any, fields: Mapping[str, Any], path: Path) -> bool:
    if not path or not fields:
        # A leaf of the notation is written as a whole, with everything below it.
        return True
    for key, below in fields.items():
        part, child = step(value, key)
        if part == path[0] and child is not MISSING and _writes(child, below, path[1:]):
            return True
    return False


def step(value: Any, key: str) -> tuple[str | int, Any]:
    """The part of a path that `key` of the notation means inside `value`, and the value there, which may be MISSING."""
    kind, _, name = key.partition(":")
    if kind == "f":
        return name, value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
    if kind in ("k", "v") and isinstance(value, list):
        wanted = json.loads(name)
        for index, each in enumerate(value):
            if each == wanted if kind == "v" else _has(each, wanted):
                return index, each
    return "", MISSING


def _has(item: Any, keys: Mapping[str, Any]) -> bool:
    """True if `item` is the one of `keys`; a key that a declaration leaves to the server's default does not count."""
    return (
        isinstance(item, Mapping) and any(key in item for key in keys) and all(item.get(key, value) == value for key, value in keys.items())
    )


def undeclared(live: Any, fields: Mapping[str, Any], declared: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Each part of `live` that a manager of `fields` wrote and `declared` lacks, as its path and value."""
    for key, below in fields.items():
        part, value = step(live, key)
        if value is MISSING:
            continue
        _, ours = step(declared, key)
        here = (*path, part)
        if ours is MISSING and (not below or (not key.startswith("f:") and "." in below)):
            yield here, value
        elif below:
            yield from undeclared(value, below, {} if ours is MISSING else ours, here)
