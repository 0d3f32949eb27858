"""The options and files that this package ships, which are public."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from inferplan.tables import table

_TABLE: Final = table("kube/disclosure/places.toml")


@lru_cache(maxsize=1)
def engine_options() -> frozenset[str]:
    """The options of the engines' own tables."""
    return frozenset(
        each for text in _shipped("options") for each in text.split() if each.startswith("--")
    )


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
