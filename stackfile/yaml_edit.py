"""Edits YAML text: adds and removes entries and replaces values, in flow and in block style, and keeps every other byte.

It knows nothing of stacks and writes no file. It expects text that `read_tree` accepts, and rejects a layout in which it cannot
tell what belongs to the entry; the caller reads the result again before trusting it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from components.spec import KeyPath
from stackfile.yaml_tree import LOADER

# White space and comments; a comment starts after white space or at the start of what is looked at.
_GAP = re.compile(r"(?:\s+(?:#[^\r\n]*)?)*")


@dataclass(slots=True)
class _Entry:
    """An item of a list, or a key with its value: where it, and its value, start and end in the text, and what it holds."""

    start: int
    value: int
    end: int
    inner: _Collection | None = None


@dataclass(slots=True)
class _Collection:
    """A list or a mapping; the names of a list are its indices."""

    start: int
    flow: bool
    entries: dict[str | int, _Entry] = field(default_factory=dict)


def add_item(text: str, path: KeyPath, item: str, *, first: bool) -> str:
    """`text` with the plain scalar `item` as the first or the last of the non-empty list at `path`.

    In block style a comment above the list keeps its place above the item that it was written for: `item` then comes last.
    Raises KeyError where there is no such list, ValueError for a layout that is better edited by hand.
    """
    listed = _collection(text, path)
    entries = list(listed.entries.values())
    if not entries:
        raise ValueError("the list is empty")
    if listed.flow:
        at, insertion = (entries[0].start, f"{item}, ") if first else (entries[-1].end, f", {item}")
        return text[:at] + insertion + text[at:]
    begin = _line_start(text, listed.start)
    indent = text[begin : listed.start]
    if indent.strip(" "):
        raise ValueError("the list starts in the middle of a line")
    above = text[:begin].splitlines()
    if first and not (above and above[-1].lstrip().startswith("#")):
        return f"{text[: listed.start]}- {item}{_line_break(text)}{indent}{text[listed.start :]}"
    at = _line_end(text, entries[-1].end)
    before = "" if text[:at].endswith(("\n", "\r")) else _line_break(text)
    after = _line_break(text) if not before else ""
    return f"{text[:at]}{before}{indent}- {item}{after}{text[at:]}"


def add_entry(text: str, path: KeyPath, entry: str) -> str:
    """`text` with `entry`, a key and its value in one line, as the last of the non-empty mapping at `path`.

    Raises KeyError where there is no such mapping, ValueError for a layout that is better edited by hand.
    """
    collection = _collection(text, path)
    entries = list(collection.entries.values())
    if not entries:
        raise ValueError("the mapping is empty")
    if collection.flow:
        return f"{text[: entries[-1].end]}, {entry}{text[entries[-1].end :]}"
    begin = _line_start(text, entries[0].start)
    indent = text[begin : entries[0].start]
    if indent.strip(" "):
        raise ValueError("the mapping starts in the middle of a line")
    at = _line_end(text, entries[-1].end)
    before, after = ("", _line_break(text)) if text[:at].endswith(("\n", "\r")) else (_line_break(text), "")
    return f"{text[:at]}{before}{indent}{entry}{after}{text[at:]}"


def remove_entry(text: str, path: KeyPath) -> str:
    """`text` without the list item or the key (with its value) at `path`; a comment behind it in its line goes too in block style.

    Raises KeyError where there is no such entry, ValueError for a layout that is better edited by hand.
    """
    collection = _collection(text, path[:-1])
    entry = collection.entries[path[-1]]
    if collection.flow:
        return _without_flow_entry(text, collection, entry)
    begin, end = _line_start(text, entry.start), _line_end(text, entry.end)
    if text[begin : entry.start].strip(" ") not in ("", "-") or not _blank(text[entry.end : end]):
        raise ValueError("the entry shares its lines with something else")
    if isinstance(path[-1], int) and text[begin : entry.start].strip(" ") != "-":
        raise ValueError("the dash of the entry is on another line")
    return text[:begin] + text[end:]


def replace_scalar(text: str, path: KeyPath, plain: str) -> str:
    """`text` with the plain scalar `plain` where the value at `path` was written, whether in quotes or over several lines.

    Raises KeyError where there is no such value, ValueError where it is a list, a mapping or nothing.
    """
    entry = _collection(text, path[:-1]).entries[path[-1]]
    old = text[entry.value : entry.end].rstrip()
    if entry.inner is not None or not old:
        raise ValueError("a mapping, a list or an empty value cannot be replaced")
    return text[: entry.value] + plain + text[entry.value + len(old) :]


def _without_flow_entry(text: str, collection: _Collection, entry: _Entry) -> str:
    start, end = entry.start, entry.end
    after = end + _gap(text, end)
    if text[after] == ",":
        comma = after
        between = text[end:comma]
    else:
        before = [each.end for each in collection.entries.values() if each.end <= start]
        if not before:
            return _cut(text, start, end)
        comma = before[-1] + _gap(text, before[-1])
        between = text[comma + 1 : start]
    if not between.strip(" "):
        return _cut(text, min(start, comma), max(end, comma + 1))
    # A comment or a line break between the two stays; the later one goes first, so that the earlier one stays where it is.
    for begin, finish in sorted([(start, end), (comma, comma + 1)], reverse=True):
        text = _cut(text, begin, finish)
    return text


def _cut(text: str, start: int, end: int) -> str:
    """`text` without what stands from `start` to `end`, and without its line where nothing else was in it."""
    begin, finish = _line_start(text, start), _line_end(text, end)
    if begin and not (text[begin:start] + text[end:finish]).strip():
        return text[:begin] + text[finish:]
    spaces = re.compile(r" *(?!#)").match(text, end) if text[start - 1 : start] in ("[", "{", " ") and text[end - 1] == "," else None
    return text[:start] + text[spaces.end() if spaces else end :]


def _collection(text: str, path: KeyPath) -> _Collection:
    collection = _outline(text)
    for part in path:
        collection = None if collection is None or part not in collection.entries else collection.entries[part].inner
    if collection is None:
        raise KeyError(path)
    return collection


def _outline(text: str) -> _Collection | None:
    return next((_node(event, events, text)[1] for events in [_events(text)] for event in events), None)


def _events(text: str) -> Iterator[yaml.Event]:
    frame = (yaml.StreamStartEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent, yaml.StreamEndEvent)
    return (event for event in yaml.parse(text, Loader=LOADER) if not isinstance(event, frame))


def _node(event: yaml.Event, events: Iterator[yaml.Event], text: str) -> tuple[int, _Collection | None]:
    """The end of the node that `event` opens, and its collection. The end of a block collection is that of its last entry."""
    if not isinstance(event, yaml.CollectionStartEvent):
        return event.end_mark.index, None
    start = event.start_mark.index
    made = _Collection(start, flow=text[start : start + 1] in ("[", "{"))
    mapping = isinstance(event, yaml.MappingStartEvent)
    end = start
    for each in events:
        if isinstance(each, yaml.CollectionEndEvent):
            return (each.end_mark.index if made.flow else end), made
        name = each.value if mapping and isinstance(each, yaml.ScalarEvent) else len(made.entries)
        opening = next(events) if mapping else each
        end, inner = _node(opening, events, text)
        # A value that is not written ends with its key.
        end = max(end, each.end_mark.index) if mapping else end
        made.entries[name] = _Entry(each.start_mark.index, opening.start_mark.index, end, inner)
    return end, made


def _gap(text: str, start: int) -> int:
    match = _GAP.match(text, start)
    return match.end() - start if match else 0


def _blank(rest: str) -> bool:
    return not rest.strip() or bool(re.match(r"\s+#", rest))


def _line_start(text: str, index: int) -> int:
    return max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1


def _line_end(text: str, index: int) -> int:
    match = re.compile(r"\r\n|\n|\r").search(text, index)
    return match.end() if match else len(text)


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
