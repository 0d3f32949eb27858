"""The shapes of a picture; lengths are in CSS pixels."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One accelerator, or one node of a large pool. `use` is "used", "free" or "later": a node that
    the pool may still add.
    """

    x: float
    y: float
    size: float
    use: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A subject of the facts. `change` is "same", "new", "gone" or "changed"."""

    key: str
    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str
    lines: tuple[str, ...]
    change: str
    cells: tuple[Cell, ...] = ()
    full: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line from one box to another: who may call what, and what reads which files."""

    start: str
    end: str
    path: str
    change: str
