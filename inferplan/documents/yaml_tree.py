"""Parses YAML of plain data into a tree with positions, and collects every error; anchors, aliases,
merge keys and tags are errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from inferplan.documents.errors import KeyPath, LocatedError, Position
from inferplan.documents.yaml_scalars import Scalar, resolve

MAX_DEPTH = 32
# libyaml's parser, where PyYAML was built with it, is 15 times faster than the one in Python (3 ms
# for 100 models, 2026-11).
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class ScalarNode:
    """A single value; `text` is how it was written, quotes left out. Each node knows the offset
    where its text ends.
    """

    position: Position
    end: int
    text: str
    value: Scalar
    ambiguity: str | None = None


@dataclass(slots=True)
class ListNode:
    """A sequence; `flow` is true for one in brackets."""

    position: Position
    end: int
    flow: bool
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class MapNode:
    """A mapping; `keys` holds where each key was written."""

    position: Position
    end: int
    flow: bool
    items: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Position] = field(default_factory=dict)


Node = ScalarNode | ListNode | MapNode


@dataclass(frozen=True)
class Tree:
    """A parsed document. `root` is None if nothing could be read; `errors` come in the order of the
    text.
    """

    root: Node | None
    errors: tuple[LocatedError, ...] = ()


class _Stop(Exception):  # noqa: N818 - ends the reading; the error is recorded already
    pass


class _Reader:
    def __init__(self, text: str) -> None:
        self.events = yaml.parse(text, Loader=LOADER)
        self.errors: list[LocatedError] = []

    def error(self, position: Position, path: KeyPath, message: str) -> None:
        self.errors.append(LocatedError(path, message, position))

    def document(self) -> Node | None:
        root = None
        for event in self.events:
            if isinstance(event, yaml.NodeEvent):
                root = self.node(event, ())
            elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
                message = (
                    "A second document starts here, which Pulumi would ignore. Keep one document"
                    " per file."
                )
                self.error(position_of(event), (), message)
                raise _Stop
        return root

    def node(self, event: Any, path: KeyPath) -> Node:
        """The node that `event` opens. The end of a block collection is that of its last entry."""
        position, end = position_of(event), event.end_mark.index
        if isinstance(event, yaml.AliasEvent):
            self.error(position, path, "Aliases (*) are not supported. Write the value out.")
            return ScalarNode(position, end, "", None)
        if event.anchor is not None:
            self.error(
                position, path, "Anchors (&) are not supported. Remove it, or quote the value."
            )
        if event.tag is not None:
            self.error(
                position,
                path,
                "Tags (!) are not supported. Remove it, and quote the value if you mean text.",
            )
        if isinstance(event, yaml.ScalarEvent):
            value, ambiguity = (event.value, None) if event.style else resolve(event.value)
            return ScalarNode(position, end, event.value, value, ambiguity)
        if len(path) >= MAX_DEPTH:
            limit = (
                f"The file is nested more than {MAX_DEPTH} levels deep, but a stack needs fewer"
                " than 10."
            )
            self.error(position, (), f"{limit} Check brackets and indentation.")
            raise _Stop
        node = (MapNode if isinstance(event, yaml.MappingStartEvent) else ListNode)(
            position, end, event.flow_style
        )
        while not isinstance(opening := next(self.events), yaml.CollectionEndEvent):
            if isinstance(node, MapNode):
                node.end = self.entry(node, opening, path)
            else:
                item = self.node(opening, (*path, len(node.items)))
                node.items.append(item)
                node.end = item.end
        if node.flow:
            node.end = opening.end_mark.index
        return node

    def entry(self, node: MapNode, event: yaml.Event, path: KeyPath) -> int:
        """Add the entry whose key `event` opens, and return where it ends."""
        if isinstance(event, yaml.CollectionStartEvent):
            message = (
                "A key cannot be a list or a mapping. Write a name, and quote values that contain"
                " ': ' or '{'."
            )
            self.error(position_of(event), path, message)
            raise _Stop
        key = self.node(event, path)
        assert isinstance(key, ScalarNode)  # noqa: S101 - every other key is rejected above
        path = (*path, key.text)
        self.check_key(node, key, path)
        value = self.node(next(self.events), path)
        # A value that is not written ends with its key.
        value.end = max(value.end, key.end)
        if key.text not in node.items:
            node.items[key.text], node.keys[key.text] = value, key.position
        return value.end

    def check_key(self, node: MapNode, key: ScalarNode, path: KeyPath) -> None:
        if key.text == "<<":
            self.error(
                key.position, path, "Merge keys (<<) are not supported. Write the values out."
            )
        elif not isinstance(key.value, str):
            comma = (
                " If it follows a comma of a number, write the number without commas."
                if len(key.text) == 3
                else ""
            )
            self.error(
                key.position,
                path,
                f"Key {key.text or 'null'} is not text.{comma} Quote it: '{key.text}'",
            )
        elif (
            key.ambiguity is not None and key.text != "on"
        ):  # `replicas.on`, which the Pulumi CLI reads as text
            self.error(key.position, path, f"Invalid key. {key.ambiguity}")
        if key.text in node.keys:
            self.error(
                key.position,
                path,
                f"Duplicate key {key.text!r}, first on line {node.keys[key.text].line}. Remove"
                " one.",
            )


def position_of(event: yaml.Event) -> Position:
    mark = event.start_mark
    return Position(mark.line + 1, mark.column + 1, mark.index)


def read_tree(text: str) -> Tree:
    reader = _Reader(text)
    try:
        return Tree(reader.document(), tuple(reader.errors))
    except _Stop:
        return Tree(None, tuple(reader.errors))
    except yaml.YAMLError as error:
        return Tree(
            None,
            (
                *reader.errors,
                *(
                    LocatedError((), message, position)
                    for position, message in syntax_errors(error, text)
                ),
            ),
        )


def syntax_errors(
    error: yaml.YAMLError | UnicodeDecodeError, text: str = ""
) -> Iterator[tuple[Position, str]]:
    """The place and the reason of each syntax error: first where the parser of `text` stopped, then
    every other line that a tab indents.
    """
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        yield (
            _after(error.object[: error.start].decode()),
            f"Byte 0x{byte:02x} is not valid UTF-8. Save the file as UTF-8.",
        )
        return
    if isinstance(error, yaml.reader.ReaderError):
        yield (
            _after(text[: error.position if isinstance(error.position, int) else 0]),
            "A control character is not allowed in YAML. Remove it.",
        )
        return
    tabs = [
        number
        for number, line in enumerate(text.split("\n"), 1)
        if "\t" in line[: len(line) - len(line.lstrip(" \t"))]
    ]
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = Position(1, 1) if mark is None else Position(mark.line + 1, mark.column + 1)
    if position.line not in tabs:
        problem = getattr(error, "problem", None) or "the text cannot be parsed"
        context = f" ({error.context})" if getattr(error, "context", None) else ""
        yield (
            position,
            f"Invalid YAML: {problem}{context}. Check indentation, colons, quotes and brackets.",
        )
    for number in sorted(tabs, key=lambda each: each != position.line):
        yield (
            Position(number, 1),
            "A tab indents this line, but YAML allows only spaces. Replace it with spaces.",
        )


def _after(text: str) -> Position:
    """The position at which `text` ends."""
    return Position(text.count("\n") + 1, len(text) - text.rfind("\n"))


def to_data(node: Node) -> Any:
    """The plain value of `node`: dict, list, str, int, float, bool or None."""
    match node:
        case ScalarNode():
            return node.value
        case ListNode():
            return [to_data(item) for item in node.items]
        case MapNode():
            return {key: to_data(item) for key, item in node.items.items()}


def find(root: Node, path: KeyPath) -> tuple[Node, Position]:
    """The node at `path` and where its key (or list item) was written; that of the nearest parent
    where there is none.
    """
    node, position = root, root.position
    for part in path:
        if isinstance(node, MapNode) and part in node.items:
            node, position = node.items[str(part)], node.keys[str(part)]
        elif isinstance(node, ListNode) and isinstance(part, int) and 0 <= part < len(node.items):
            node = node.items[part]
            position = node.position
        else:
            break
    return node, position


def walk(node: Node, path: KeyPath, position: Position) -> Iterator[tuple[Node, KeyPath, Position]]:
    """`node` and all nodes below it, each with its path and where its key (or list item) was
    written.
    """
    yield node, path, position
    if isinstance(node, MapNode):
        for key, item in node.items.items():
            yield from walk(item, (*path, key), node.keys[key])
    elif isinstance(node, ListNode):
        for index, item in enumerate(node.items):
            yield from walk(item, (*path, index), item.position)
