"""Property paths, written as Pulumi writes them: `spec.containers[0].env`, `metadata.annotations["a.b/c"]`."""

from __future__ import annotations

import copy
import re
from typing import Any

Path = tuple[str | int, ...]

_PART = re.compile(r'\[(?P<index>[0-9]+|\*)\]|\["(?P<quoted>(?:[^"\\]|\\.)*)"\]|\.?(?P<plain>[^.\[]+)')


def text_of(path: Path) -> str:
    """`path` in Pulumi's spelling."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif any(mark in part for mark in '."[]'):
            text += '["{}"]'.format(part.replace('"', '\\"'))
        else:
            text += f".{part}" if text else part
    return text


def parse(text: str) -> Path:
    """The path that `text` spells; `*` stays a part of its own. Raises ValueError for text that is no path."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise ValueError(f"{text!r} is no property path (at character {position + 1})")
        if match["quoted"] is not None:
            parts.append(match["quoted"].replace('\\"', '"'))
        elif match["index"] is not None:
            parts.append("*" if match["index"] == "*" else int(match["index"]))
        else:
            parts.append(match["plain"])
        position = match.end()
    return tuple(parts)


def covers(pattern: Path, path: Path) -> bool:
    """Whether `path` is at or below `pattern`; `*` in the pattern stands for any one part."""
    return len(pattern) <= len(path) and all(mine in ("*", its) for mine, its in zip(pattern, path, strict=False))


_MISSING = object()


def kept(goal: dict[str, Any], live: dict[str, Any], ignored: tuple[str, ...]) -> dict[str, Any]:
    """A copy of `goal` that has at each of the `ignored` paths what `live` has there, or nothing when it has nothing."""
    if not ignored:
        return goal
    fresh = copy.deepcopy(goal)
    for text in ignored:
        path = parse(text)
        value = _at(live, path)
        holder = _at(fresh, path[:-1])
        last = path[-1]
        if isinstance(holder, dict) and value is _MISSING:
            holder.pop(last, None)
        elif isinstance(holder, dict) or (isinstance(holder, list) and isinstance(last, int) and last < len(holder)):
            holder[last] = value  # type: ignore[index]  # a list is reached with an index only, see above
    return fresh


def values_at(value: Any, pattern: Path) -> Any:
    """What `value` holds at `pattern`, None where it holds nothing; `*` gives a list of what each item holds."""
    if "*" not in pattern:
        held = _at(value, pattern)
        return None if held is _MISSING else held
    star = pattern.index("*")
    items = _at(value, pattern[:star])
    return [values_at(item, pattern[star + 1 :]) for item in items] if isinstance(items, list) else None


def _at(value: Any, path: Path) -> Any:
    for part in path:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            value = value[part]
        else:
            return _MISSING
    return value
