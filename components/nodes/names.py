"""Looking a row up by the name that a user wrote, with an error that helps.

It knows nothing of what the rows hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Row = TypeVar("Row")


def named(name: str, rows: Mapping[str, Row], noun: str) -> Row:
    """The row called `name`. Raises ValueError naming the nearest name and every allowed one."""
    if name in rows:
        return rows[name]
    near = nearest(name, rows)
    hint = f"; did you mean {near!r}" if near else ""
    raise ValueError(f"{name[:80]!r} is not a known {noun}{hint}. Allowed: {', '.join(rows)}")


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that `name` most likely means (`h100`, `Gaudi2`, `A100_80GB`), None when nothing comes close."""
    import difflib

    folded = {_folded(each): each for each in allowed}
    wanted = _folded(name[:80])
    within = [key for key in folded if wanted and wanted in key]
    near = within[:1] or difflib.get_close_matches(wanted, folded, n=1, cutoff=0.6)
    return folded[near[0]] if near else None


def _folded(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
