"""Property paths as Pulumi spells them, `a.b[0]["x.y"]`: text to parts, parts to text, and what a path leads to.

A key that ends in a backslash, or holds one before a quote, cannot be told apart once quoted; Pulumi's own spelling
has that gap, and `text_of` rejects such a key where quotes are needed.
"""

from __future__ import annotations

import re
from typing import Any, Final

Path = tuple[str | int, ...]

MISSING: Final = object()
"""Returned by `value_at` for a path that leads nowhere; None is a value."""

_PART = re.compile(r'\[(?P<index>[0-9]{1,9})\]|\["(?P<quoted>(?:\\"|[^"])*)"\]|(?P<dot>\.)?(?P<plain>[^.\[]+)')
_NEEDS_QUOTES = re.compile(r"[.\[]")


def text_of(path: Path) -> str:
    """`path` in Pulumi's spelling. Raises ValueError for a key that has none."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part and not _NEEDS_QUOTES.search(part):
            text += f".{part}" if text else part
        elif part.endswith("\\") or '\\"' in part:
            raise ValueError(f"the key {part!r} has no spelling in a property path: a backslash stands before a quote")
        else:
            text += '["{}"]'.format(part.replace('"', '\\"'))
    return text


def parse(text: str) -> Path:
    """The path that `text` spells. Raises ValueError with the position if `text` is not a path."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        # A dot comes between parts and never first; a plain key after another part needs one.
        if match is None or (match["plain"] is not None and (match["dot"] is None) != (position == 0)):
            raise ValueError(f'{text!r} is not a property path (character {position + 1}). Expected a key, .key, [0] or ["key"]')
        if match["quoted"] is not None:
            parts.append(match["quoted"].replace('\\"', '"'))
        elif match["index"] is not None:
            parts.append(int(match["index"]))
        else:
            parts.append(match["plain"])
        position = match.end()
    return tuple(parts)


def value_at(value: Any, path: Path) -> Any:
    """The value at `path` inside `value`, or MISSING."""
    for part in path:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            value = value[part]
        else:
            return MISSING
    return value


def mapping(value: Any, *path: str) -> dict[str, Any]:
    """The map at `path` inside `value`, {} if there is none."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def order_of(path: Path) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts `[2]` before `[10]` and parts of unlike type in a fixed order."""
    return tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in path)
