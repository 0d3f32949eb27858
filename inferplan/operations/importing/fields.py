"""A model server of others, and how values are taken out of its document, so that the paths of the rest are known."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferplan.kube.paths import MISSING, leaves, parse, text_of, value_at

REPOSITORY = re.compile(r"(?:hf://)?([\w.-]+/[\w.-]+?)(?::([0-9a-f]{40}))?")
"""A repository of a hub, with its revision."""


@dataclass(kw_only=True)
class Server:
    """A model server of others. `left` are the paths of its document that were not taken."""

    name: str
    place: str
    engine: str
    replicas: Any = None
    accelerators: int = 0
    words: list[str] = field(default_factory=list)
    model: str = ""
    revision: str = ""
    claim: str = ""
    path: str = ""
    models: list[str] = field(default_factory=list)
    applications: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    image: str = ""
    left: list[str] = field(default_factory=list)


def take_all(body: dict[str, Any], paths: Sequence[str]) -> list[Any]:
    return [value for path in paths if (value := take(body, path)) is not None]


def take(body: dict[str, Any], path: str) -> Any:
    """The value at `path`, which is removed with the parents that it leaves empty; None if there is none, or if it says nothing."""
    *parents, last = parse(path)
    parent = value_at(body, tuple(parents))
    if not isinstance(parent, dict) or parent.get(str(last)) in (None, {}, []):
        return None
    value = parent.pop(str(last))
    while parents and parent in ({}, []):
        *parents, last = parents
        parent = value_at(body, tuple(parents))
        if isinstance(parent, list):
            parent[int(last)] = MISSING  # the other items keep their places
            parent[:] = [] if all(each is MISSING for each in parent) else parent
        else:
            parent.pop(last)
    return value


def left_in(body: dict[str, Any]) -> list[str]:
    """The paths of what was not taken, also of what is empty."""
    return [text_of(path) for path, value in leaves(body) if path and value is not MISSING]


def mapped(body: dict[str, Any], fields: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """The fields of a stack for the values that are taken from `body`: `fields` are their names by path below `prefix`."""
    return {name: value for path, name in fields.items() if (value := take(body, prefix + path)) is not None}
