"""The options and files that this package ships, which are public."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from inferplan.tables import table

_TABLE: Final = table("kube/disclosure/places.toml")


@lru_cache(maxsize=1)
def engine_options() -> frozenset[str]:
    """The options of the engines' own tables."""
    names = {name for each in _tables() for name in each}
    return frozenset(names | {f"--no-{name[2:]}" for name in names})


def is_listed(word: str) -> bool:
    """True if an engine lists `word`, as an option or as the value of one."""
    return word in _values() or word in engine_options()


@lru_cache(maxsize=1)
def _values() -> frozenset[str]:
    """The values that the engines list for any of their options, such as `gptq_marlin`."""
    rows = (row for each in _tables() for row in each.values())
    return frozenset(value for row in rows for value in row.get("values", ()))


@lru_cache(maxsize=1)
def _tables() -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads(text)["options"] for text in _shipped("options"))


@lru_cache(maxsize=1)
def shipped_lines() -> frozenset[str]:
    """The lines of the programs and files that this package ships and a stack copies into its
    objects.
    """
    return frozenset(line for text in _shipped("files") for line in text.split("\n"))


def _shipped(kind: str) -> Iterator[str]:
    root = Path(__file__).parents[2]
    return (
        path.read_text(encoding="utf-8")
        for pattern in _TABLE["programs"][kind]
        for path in sorted(root.glob(pattern))
    )
