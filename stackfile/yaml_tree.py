"""YAML as a tree that remembers where everything was written, with every fault of the notation.

It reads one small document of plain data. Anchors, aliases, merge keys, tags and further documents are refused: a stack
file is reviewed line by line, so each line must say what it means. It knows nothing of stacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from components.spec import Fault
from stackfile.faults import LocatedFault, Place
from stackfile.yaml_scalars import Scalar, resolve

MAX_DEPTH = 32
# libyaml's parser, where PyYAML was built with it, is 15 times faster than the one in Python (3 ms for 100 models, 2026-11).
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Path = tuple[str | int, ...]


@dataclass(slots=True)
class ScalarNode:
    """A single value; `text` is how it was written, quotes left out."""

    place: Place
    text: str
    value: Scalar
    complaint: str | None = None


@dataclass(slots=True)
class ListNode:
    """A sequence."""

    place: Place
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class MapNode:
    """A mapping; `keys` holds where each key was written."""

    place: Place
    items: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Place] = field(default_factory=dict)


Node = ScalarNode | ListNode | MapNode


@dataclass(frozen=True)
class Tree:
    """What a document holds. `root` is None where nothing could be read; `faults` come in the order of the text."""

    root: Node | None
    faults: tuple[LocatedFault, ...] = ()


class _Stop(Exception):  # noqa: N818 - ends the reading; the fault is recorded already
    pass


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been read; `key` waits for its value."""

    node: MapNode | ListNode
    path: Path
    key: str | None = None
    key_place: Place | None = None


class _Reader:
    def __init__(self) -> None:
        self.root: Node | None = None
        self.faults: list[LocatedFault] = []
        self.open: list[_Open] = []
        self.documents = 0

    def fault(self, place: Place, path: Path, message: str) -> None:
        self.faults.append(LocatedFault(Fault(path, message), place))

    def event(self, event: yaml.Event) -> None:
        place = Place(event.start_mark.line + 1, event.start_mark.column + 1)
        match event:
            case yaml.ScalarEvent():
                self.refuse_extras(event, place)
                self.attach(_scalar(event, place), place)
            case yaml.MappingStartEvent():
                self.refuse_extras(event, place)
                self.descend(MapNode(place), place)
            case yaml.SequenceStartEvent():
                self.refuse_extras(event, place)
                self.descend(ListNode(place), place)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self.open.pop()
            case yaml.AliasEvent():
                self.fault(place, self.here(), f"*{event.anchor} repeats what stands elsewhere; write it out, stack files hold no aliases")
                self.attach(ScalarNode(place, "", None), place)
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    self.fault(place, (), "a second document starts here, and Pulumi would ignore it; keep one document in a file")
                    raise _Stop

    def refuse_extras(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, place: Place) -> None:
        if event.anchor is not None:
            self.fault(place, self.here(), f"&{event.anchor} is an anchor; remove it, stack files hold no anchors")
        if event.tag is not None:
            self.fault(place, self.here(), f"{event.tag} is a tag; remove it, and quote the value where text is meant")

    def here(self) -> Path:
        if not self.open:
            return ()
        top = self.open[-1]
        if isinstance(top.node, ListNode):
            return (*top.path, len(top.node.items))
        return top.path if top.key is None else (*top.path, top.key)

    def descend(self, node: MapNode | ListNode, place: Place) -> None:
        path = self.here()
        if len(self.open) >= MAX_DEPTH:
            self.fault(place, (), f"nested more than {MAX_DEPTH} levels deep; a stack needs fewer than ten")
            raise _Stop
        top = self.open[-1] if self.open else None
        if top is not None and isinstance(top.node, MapNode) and top.key is None:
            self.fault(place, path, "a key is a list or a mapping here; a key is a name (and a value that holds ': ' or '{' needs quotes)")
            raise _Stop
        self.attach(node, place)
        self.open.append(_Open(node, path))

    def attach(self, node: Node, place: Place) -> None:
        if not self.open:
            self.root = node
            return
        top = self.open[-1]
        if isinstance(top.node, ListNode):
            top.node.items.append(node)
        elif top.key is None:
            assert isinstance(node, ScalarNode)  # noqa: S101 - descend refuses every other key
            self.name(top, node, place)
        else:
            if top.key not in top.node.items:
                top.node.items[top.key] = node
                top.node.keys[top.key] = top.key_place or place
            top.key = None

    def name(self, top: _Open, node: ScalarNode, place: Place) -> None:
        assert isinstance(top.node, MapNode)  # noqa: S101 - only a mapping has keys
        top.key, top.key_place = node.text, place
        path = (*top.path, node.text)
        if node.text == "<<":
            self.fault(place, path, "<< merges what stands elsewhere; write it out, stack files hold no merges")
        elif not isinstance(node.value, str):
            self.fault(place, path, f"the key {node.text or 'null'} is no text; quote it: '{node.text}'")
        elif node.complaint is not None:
            self.fault(place, path, f"as a key, {node.complaint}")
        if node.text in top.node.keys:
            first = top.node.keys[node.text]
            self.fault(place, path, f"{node.text!r} stands here a second time, first in line {first.line}; keep one of them")


def _scalar(event: yaml.ScalarEvent, place: Place) -> ScalarNode:
    if event.style:
        return ScalarNode(place, event.value, event.value)
    value, complaint = resolve(event.value)
    return ScalarNode(place, event.value, value, complaint)


def read_tree(text: str) -> Tree:
    """The tree of `text`, and everything that is wrong with its notation."""
    reader = _Reader()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            reader.event(event)
    except _Stop:
        return Tree(None, tuple(reader.faults))
    except yaml.YAMLError as error:
        return Tree(None, (*reader.faults, *_syntax_faults(error, text)))
    return Tree(reader.root, tuple(reader.faults))


def _syntax_faults(error: yaml.YAMLError, text: str) -> Iterator[LocatedFault]:
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position if isinstance(error.position, int) else 0]
        place = Place(before.count("\n") + 1, len(before) - before.rfind("\n"))
        yield LocatedFault(Fault((), "a control character, which YAML does not allow; remove it"), place)
        return
    tabs = [number for number, line in enumerate(text.split("\n"), 1) if "\t" in line[: len(line) - len(line.lstrip(" \t"))]]
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)
    for number in tabs:
        yield LocatedFault(Fault((), "a tab indents this line; YAML allows only spaces there"), Place(number, 1))
    if place.line not in tabs:
        problem = getattr(error, "problem", None) or "this is no YAML"
        context = getattr(error, "context", None)
        yield LocatedFault(
            Fault((), f"{problem}{f' ({context})' if context else ''}; check indentation, colons, quotes and brackets"), place
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


def find(root: Node, path: Path) -> tuple[Node, Place]:
    """The node at `path` and where its key (or list item) was written; that of the nearest parent where there is none."""
    node, place = root, root.place
    for part in path:
        if isinstance(node, MapNode) and part in node.items:
            node, place = node.items[str(part)], node.keys[str(part)]
        elif isinstance(node, ListNode) and isinstance(part, int) and 0 <= part < len(node.items):
            node = node.items[part]
            place = node.place
        else:
            break
    return node, place


def complaints(node: Node, path: Path = ()) -> Iterator[LocatedFault]:
    """The faults of unquoted values below `node` that YAML readers disagree about."""
    match node:
        case ScalarNode():
            if node.complaint is not None:
                yield LocatedFault(Fault(path, node.complaint), node.place)
        case ListNode():
            for index, item in enumerate(node.items):
                yield from complaints(item, (*path, index))
        case MapNode():
            for key, item in node.items.items():
                yield from complaints(item, (*path, key))
