"""Property paths as Pulumi spells them, `a.b[0]["x.y"]` (pulumi's properties_path.go): text to
parts and back, and the value at a path.
"""

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

Path = tuple[str | int, ...]

MISSING: Final = object()
"""Returned by `value_at` for a path that leads nowhere; None is a value."""

_PART = re.compile(
    r'\[(?P<index>[0-9]{1,9}|\*)\]|\["(?P<quoted>(?:\\"|[^"])*)"\]|(?P<dot>\.)?(?P<plain>[^.\[]+)'
)
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
# Thousands of resources have values at the same paths.
_PATHS = 16384


@lru_cache(_PATHS)
def text_of(path: Path) -> str:
    """Return `path` in Pulumi's spelling."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += '["{}"]'.format(part.replace('"', '\\"'))
    return text


def dotted(path: Iterable[str | int]) -> str:
    """Return `path` as a person writes it, without quotes: `exemptions[0].rule`."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


@lru_cache(_PATHS)
def parse(text: str) -> Path:
    """Return the path that `text` spells; `*` stands for any item. Raises ValueError with the
    position if `text` is not a path.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        # A dot comes between parts and never first; a plain key after another part needs one.
        if match is None or (
            match["plain"] is not None and (match["dot"] is None) != (position == 0)
        ):
            raise ValueError(
                f"{text!r} is not a property path (character {position + 1}). Expected a key, .key,"
                ' [0] or ["key"]'
            )
        if match["quoted"] is not None:
            parts.append(match["quoted"].replace('\\"', '"'))
        elif match["index"] is not None:
            parts.append("*" if match["index"] == "*" else int(match["index"]))
        else:
            parts.append(match["plain"])
        position = match.end()
    return tuple(parts)


def covers(pattern: Path, path: Path) -> bool:
    """True if `path` is at or below `pattern`; `*` in the pattern stands for any one part."""
    return len(pattern) <= len(path) and all(
        mine in ("*", its) for mine, its in zip(pattern, path, strict=False)
    )


def value_at(value: Any, path: Path) -> Any:
    """Return the value at `path` inside `value`, or MISSING."""
    for part in path:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            value = value[part]
        else:
            return MISSING
    return value


def values_at(value: Any, pattern: Path) -> Any:
    """Return the value at `pattern`, None if there is none; `*` gives a list with the value of each
    item.
    """
    if "*" not in pattern:
        match = value_at(value, pattern)
        return None if match is MISSING else match
    star = pattern.index("*")
    items = value_at(value, pattern[:star])
    return (
        [values_at(item, pattern[star + 1 :]) for item in items]
        if isinstance(items, list)
        else None
    )


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each value inside `value` that has no parts, also an empty map or list, with its path
    after `path`.
    """
    if isinstance(value, dict | list) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, key))
    else:
        yield path, value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return `value` with `change` applied to each part that is not a map or a list."""
    if isinstance(value, Mapping):
        return {str(key): mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mapped(item, change) for item in value]
    return change(value)


def with_values_of(
    other: dict[str, Any], value: dict[str, Any], paths: Iterable[str]
) -> dict[str, Any]:
    """Return a copy of `value` that has at each of `paths` what `other` has there, or nothing if it
    has nothing.
    """
    copied = copy.deepcopy(value)
    for path in map(parse, paths):
        replacement, holder, last = value_at(other, path), value_at(copied, path[:-1]), path[-1]
        if isinstance(holder, dict) and replacement is MISSING:
            holder.pop(last, None)
        elif isinstance(holder, dict) or (
            isinstance(holder, list) and isinstance(last, int) and last < len(holder)
        ):
            holder[last] = replacement  # type: ignore[index]  # a list is reached with an index only, see above
    return copied


def mapping(value: Any, *path: str) -> dict[str, Any]:
    """Return the map at `path` inside `value`, {} if there is none."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def order_of(path: Path) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts `[2]` before `[10]` and parts of unlike type in a fixed order."""
    return tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in path)
