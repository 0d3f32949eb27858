"""Parses YAML into a tree with the position of every node, and collects every syntax error.

It reads one small document of plain data. Anchors, aliases, merge keys, tags and further documents are errors: a stack
file is reviewed line by line, so each line must say what it means. It knows nothing of stacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from components.spec import KeyPath, SpecError
from stackfile.errors import LocatedError, Position
from stackfile.yaml_scalars import Scalar, resolve

MAX_DEPTH = 32
# libyaml's parser, where PyYAML was built with it, is 15 times faster than the one in Python (3 ms for 100 models, 2026-11).
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class ScalarNode:
    """A single value; `text` is how it was written, quotes left out."""

    position: Position
    text: str
    value: Scalar
    ambiguity: str | None = None


@dataclass(slots=True)
class ListNode:
    """A sequence."""

    position: Position
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class MapNode:
    """A mapping; `keys` holds where each key was written."""

    position: Position
    items: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Position] = field(default_factory=dict)


Node = ScalarNode | ListNode | MapNode


@dataclass(frozen=True)
class Tree:
    """A parsed document. `root` is None if nothing could be read; `errors` come in the order of the text."""

    root: Node | None
    errors: tuple[LocatedError, ...] = ()


class _Stop(Exception):  # noqa: N818 - ends the reading; the error is recorded already
    pass


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been read; `key` waits for its value."""

    node: MapNode | ListNode
    path: KeyPath
    key: str | None = None
    key_position: Position | None = None


class _Reader:
    def __init__(self) -> None:
        self.root: Node | None = None
        self.errors: list[LocatedError] = []
        self.open: list[_Open] = []
        self.documents = 0

    def error(self, position: Position, path: KeyPath, message: str) -> None:
        self.errors.append(LocatedError(SpecError(path, message), position))

    def event(self, event: yaml.Event) -> None:
        position = Position(event.start_mark.line + 1, event.start_mark.column + 1)
        match event:
            case yaml.ScalarEvent():
                self.reject_extras(event, position)
                self.attach(_scalar(event, position), position)
            case yaml.MappingStartEvent():
                self.reject_extras(event, position)
                self.descend(MapNode(position), position)
            case yaml.SequenceStartEvent():
                self.reject_extras(event, position)
                self.descend(ListNode(position), position)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self.open.pop()
            case yaml.AliasEvent():
                self.error(position, self.here(), f"Aliases (*{event.anchor}) are not supported. Write the value out.")
                self.attach(ScalarNode(position, "", None), position)
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    self.error(position, (), "A second document starts here, which Pulumi would ignore. Keep one document per file.")
                    raise _Stop

    def reject_extras(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, position: Position) -> None:
        if event.anchor is not None:
            self.error(position, self.here(), f"Anchors (&{event.anchor}) are not supported. Remove it.")
        if event.tag is not None:
            self.error(position, self.here(), f"Tags ({event.tag}) are not supported. Remove it, and quote the value if you mean text.")

    def here(self) -> KeyPath:
        if not self.open:
            return ()
        top = self.open[-1]
        if isinstance(top.node, ListNode):
            return (*top.path, len(top.node.items))
        return top.path if top.key is None else (*top.path, top.key)

    def descend(self, node: MapNode | ListNode, position: Position) -> None:
        path = self.here()
        if len(self.open) >= MAX_DEPTH:
            self.error(
                position,
                (),
                f"The file is nested more than {MAX_DEPTH} levels deep, but a stack needs fewer than 10. Check brackets and indentation.",
            )
            raise _Stop
        top = self.open[-1] if self.open else None
        if top is not None and isinstance(top.node, MapNode) and top.key is None:
            self.error(position, path, "A key cannot be a list or a mapping. Write a name, and quote values that contain ': ' or '{'.")
            raise _Stop
        self.attach(node, position)
        self.open.append(_Open(node, path))

    def attach(self, node: Node, position: Position) -> None:
        if not self.open:
            self.root = node
            return
        top = self.open[-1]
        if isinstance(top.node, ListNode):
            top.node.items.append(node)
        elif top.key is None:
            assert isinstance(node, ScalarNode)  # noqa: S101 - descend rejects every other key
            self.name(top, node, position)
        else:
            if top.key not in top.node.items:
                top.node.items[top.key] = node
                top.node.keys[top.key] = top.key_position or position
            top.key = None

    def name(self, top: _Open, node: ScalarNode, position: Position) -> None:
        assert isinstance(top.node, MapNode)  # noqa: S101 - only a mapping has keys
        top.key, top.key_position = node.text, position
        path = (*top.path, node.text)
        if node.text == "<<":
            self.error(position, path, "Merge keys (<<) are not supported. Write the values out.")
        elif not isinstance(node.value, str):
            self.error(position, path, f"Key {node.text or 'null'} is not text. Quote it: '{node.text}'")
        elif node.ambiguity is not None and node.text != "on":  # `replicas.on`, which the Pulumi CLI reads as text
            self.error(position, path, f"Invalid key. {node.ambiguity}")
        if node.text in top.node.keys:
            first = top.node.keys[node.text]
            self.error(position, path, f"Duplicate key {node.text!r}, first on line {first.line}. Remove one.")


def _scalar(event: yaml.ScalarEvent, position: Position) -> ScalarNode:
    if event.style:
        return ScalarNode(position, event.value, event.value)
    value, ambiguity = resolve(event.value)
    return ScalarNode(position, event.value, value, ambiguity)


def read_tree(text: str) -> Tree:
    """Parse `text` into a tree, with every syntax error."""
    reader = _Reader()
    try:
        for event in yaml.parse(text, Loader=LOADER):
            reader.event(event)
    except _Stop:
        return Tree(None, tuple(reader.errors))
    except yaml.YAMLError as error:
        return Tree(None, (*reader.errors, *_syntax_errors(error, text)))
    return Tree(reader.root, tuple(reader.errors))


def _syntax_errors(error: yaml.YAMLError, text: str) -> Iterator[LocatedError]:
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position if isinstance(error.position, int) else 0]
        position = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
        yield LocatedError(SpecError((), "A control character is not allowed in YAML. Remove it."), position)
        return
    tabs = [number for number, line in enumerate(text.split("\n"), 1) if "\t" in line[: len(line) - len(line.lstrip(" \t"))]]
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = Position(1, 1) if mark is None else Position(mark.line + 1, mark.column + 1)
    for number in tabs:
        yield LocatedError(
            SpecError((), "A tab indents this line, but YAML allows only spaces. Replace it with spaces."), Position(number, 1)
        )
    if position.line not in tabs:
        problem = getattr(error, "problem", None) or "the text cannot be parsed"
        context = getattr(error, "context", None)
        yield LocatedError(
            SpecError((), f"Invalid YAML: {problem}{f' ({context})' if context else ''}. Check indentation, colons, quotes and brackets."),
            position,
        )


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
    """The node at `path` and where its key (or list item) was written; that of the nearest parent where there is none."""
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


def ambiguities(node: Node, path: KeyPath = ()) -> Iterator[LocatedError]:
    """The errors of unquoted values below `node` that YAML readers disagree about."""
    match node:
        case ScalarNode():
            if node.ambiguity is not None:
                yield LocatedError(SpecError(path, node.ambiguity), node.position)
        case ListNode():
            for index, item in enumerate(node.items):
                yield from ambiguities(item, (*path, index))
        case MapNode():
            for key, item in node.items.items():
                yield from ambiguities(item, (*path, key))
