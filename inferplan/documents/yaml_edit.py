"""Edits YAML text that `read_tree` accepts, and keeps every other byte. Raises KeyError for a path,
ValueError for a layout.
"""

import re

from inferplan.documents.errors import KeyPath
from inferplan.documents.yaml_tree import ListNode, MapNode, Node, ScalarNode, read_tree

# White space and comments; a comment starts after white space or at the start of what is looked at.
_GAP = re.compile(r"(?:\s+(?:#[^\r\n]*)?)*")


def add_item(text: str, path: KeyPath, item: str, *, first: bool) -> str:
    """The text with the scalar `item` first or last in the non-empty list at `path`; last if a
    comment above belongs to the first.
    """
    items = _collection(text, path)
    start = items.position.index
    if first and items.flow:
        start = _children(items)[0].position.index
        return f"{text[:start]}{item}, {text[start:]}"
    if first:
        indent = _indent(text, items)
        above = text[: start - len(indent)].splitlines()
        if not (above and above[-1].lstrip().startswith("#")):
            return f"{text[:start]}- {item}{_line_break(text)}{indent}{text[start:]}"
    return _append(text, items, item if items.flow else f"- {item}")


def add_entry(text: str, path: KeyPath, entry: str) -> str:
    """`text` with `entry`, a key and its value in one line, as the last of the non-empty mapping at
    `path`.
    """
    return _append(text, _collection(text, path), entry)


def remove_entry(text: str, path: KeyPath) -> str:
    """`text` without the list item or the key (with its value) at `path`; a comment behind it in
    its line goes too in block style.
    """
    collection = _collection(text, path[:-1])
    start, end = _start(collection, path[-1]), _children(collection)[path[-1]].end
    if collection.flow:
        return _without_flow_entry(text, collection, start, end)
    begin, finish = _line_start(text, start), _line_end(text, end)
    rest = text[end:finish]
    if text[begin:start].strip(" ") not in ("", "-") or (
        rest.strip() and not re.match(r"\s+#", rest)
    ):
        raise ValueError("the entry shares its lines with something else")
    if isinstance(path[-1], int) and text[begin:start].strip(" ") != "-":
        raise ValueError("the dash of the entry is on another line")
    return text[:begin] + text[finish:]


def replace_scalar(text: str, path: KeyPath, plain: str) -> str:
    """`text` with the plain scalar `plain` where the value at `path` was written, whether in quotes
    or over several lines.
    """
    node = _children(_collection(text, path[:-1]))[path[-1]]
    start = node.position.index
    old = text[start : node.end].rstrip()
    if not isinstance(node, ScalarNode) or not old:
        raise ValueError("a mapping, a list or an empty value cannot be replaced")
    return text[:start] + plain + text[start + len(old) :]


def rename_key(text: str, path: KeyPath, name: str) -> str:
    """`text` with `name` as the key at `path`, a plain scalar; its value stays."""
    mapping, old = _collection(text, path[:-1]), str(path[-1])
    if not isinstance(mapping, MapNode):
        raise KeyError(old)
    start = mapping.keys[old].index
    if text[start : start + len(old)] != old:
        raise ValueError("the key is quoted")
    return text[:start] + name + text[start + len(old) :]


def _append(text: str, collection: ListNode | MapNode, entry: str) -> str:
    end = list(_children(collection).values())[-1].end
    if collection.flow:
        return f"{text[:end]}, {entry}{text[end:]}"
    indent, at = _indent(text, collection), _line_end(text, end)
    before, after = (
        ("", _line_break(text)) if text[:at].endswith(("\n", "\r")) else (_line_break(text), "")
    )
    return f"{text[:at]}{before}{indent}{entry}{after}{text[at:]}"


def _indent(text: str, collection: ListNode | MapNode) -> str:
    start = collection.position.index
    indent = text[_line_start(text, start) : start]
    if indent.strip(" "):
        raise ValueError("the list or mapping starts in the middle of a line")
    return indent


def _without_flow_entry(text: str, collection: ListNode | MapNode, start: int, end: int) -> str:
    after = _gap_end(text, end)
    if text[after] == ",":
        comma = after
        between = text[end:comma]
    else:
        before = [each.end for each in _children(collection).values() if each.end <= start]
        if not before:
            return _cut(text, start, end)
        comma = _gap_end(text, before[-1])
        between = text[comma + 1 : start]
    if not between.strip(" "):
        return _cut(text, min(start, comma), max(end, comma + 1))
    # A comment or a line break between the two stays. The later one is edited first, so that the
    # earlier one keeps its position.
    for begin, finish in sorted([(start, end), (comma, comma + 1)], reverse=True):
        text = _cut(text, begin, finish)
    return text


def _cut(text: str, start: int, end: int) -> str:
    """`text` without the part from `start` to `end`, and without its line if nothing else was in
    it.
    """
    begin, finish = _line_start(text, start), _line_end(text, end)
    if begin and not (text[begin:start] + text[end:finish]).strip():
        return text[:begin] + text[finish:]
    spaces = (
        re.compile(r" *(?!#)").match(text, end)
        if text[start - 1 : start] in ("[", "{", " ") and text[end - 1] == ","
        else None
    )
    return text[:start] + text[spaces.end() if spaces else end :]


def _collection(text: str, path: KeyPath) -> ListNode | MapNode:
    node = read_tree(text).root
    for part in path:
        node = _children(node)[part]
    if not isinstance(node, ListNode | MapNode):
        raise KeyError(path)
    if not node.items:
        raise ValueError("the list or mapping is empty")
    return node


def _children(node: Node | None) -> dict[str | int, Node]:
    if isinstance(node, ListNode):
        return dict(enumerate(node.items))
    return dict(node.items.items()) if isinstance(node, MapNode) else {}


def _start(collection: ListNode | MapNode, name: str | int) -> int:
    """The offset of the entry `name`, which starts with its key in a mapping."""
    position = (
        collection.keys[str(name)]
        if isinstance(collection, MapNode)
        else collection.items[int(name)].position
    )
    return position.index


def _gap_end(text: str, start: int) -> int:
    match = _GAP.match(text, start)
    return match.end() if match else start


def _line_start(text: str, index: int) -> int:
    return max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1


def _line_end(text: str, index: int) -> int:
    match = re.compile(r"\r\n|\n|\r").search(text, index)
    return match.end() if match else len(text)


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
