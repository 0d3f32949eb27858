"""Lines of fields in the text of manifests and of templates, which no YAML parser reads."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from inferplan.kube.paths import parse

Resource = tuple[Path, int, str, str, int]
"""File, first line, kind, name and length of a document."""
_INDENT: Final = re.compile(r"\s*(?:- +)*")
_IGNORED: Final = re.compile(r"\s*(?:#|\{\{|$)")
_KIND: Final = re.compile(r"kind:\s*[\"']?(\w+)")
_NAME: Final = re.compile(r"^  name:\s*[\"']?([\w.-]+)", re.MULTILINE)
_INLINE_NAME: Final = re.compile(r"metadata:\s*\{[^}]*\bname:\s*[\"']?([\w.-]+)")


def line_of(lines: Sequence[str], first: int, field: str) -> int:
    """The line of `field` in the document that begins at line `first`: that of the deepest key or
    item of its path that is written there.
    """
    at, depth = first - 1, -1
    for part in _parts(field):
        find = _item if isinstance(part, int) else _key
        at, depth = next(find(lines, at, depth, part), (at, sys.maxsize))
    return at + 1


def _parts(field: str) -> Sequence[str | int]:
    """The keys and positions of `field`. A message of an API server can name something else, such
    as the invalid key of a map: of that, the part before the first bracket.
    """
    try:
        return parse(field)
    except ValueError:
        with suppress(ValueError):
            return parse(field.partition("[")[0])
        return ()


def _below(lines: Sequence[str], at: int, *, depth: int) -> Iterator[tuple[int, int, str]]:
    """Index, indentation and text of the lines of one document after the one at `at`, as long as
    they are indented by `depth` at least.
    """
    for index, line in enumerate(lines[at + 1 :], at + 1):
        indent = len(line) - len(line.lstrip())
        if line.startswith("---") or (indent < depth and not _IGNORED.match(line)):
            return
        if not _IGNORED.match(line):
            yield index, indent, line


def _key(lines: Sequence[str], at: int, depth: int, key: Any) -> Iterator[tuple[int, int]]:
    """Index and indentation of `key` on the line at `at` or below it."""
    wanted, inner = re.compile(rf"[\"']?{re.escape(key)}[\"']?\s*:"), sys.maxsize
    for index, _, line in ((at, 0, lines[at]), *_below(lines, at, depth=depth + 1)):
        indent = len((_INDENT.match(line) or [""])[0])
        if depth < indent <= inner:
            inner = indent
            if wanted.match(line, indent):
                yield index, indent


def _item(lines: Sequence[str], at: int, depth: int, number: Any) -> Iterator[tuple[int, int]]:
    """Index and indentation of the item `number` of the list below the line at `at`."""
    below = [*_below(lines, at, depth=depth)]
    below = [*takewhile(lambda each: each[1] > depth or each[2].lstrip()[0] == "-", below)]
    items = [(index, indent) for index, indent, line in below if line.lstrip()[0] == "-"]
    yield from [each for each in items if each[1] == items[0][1]][number : number + 1]


def line_of_template(lines: Sequence[str], kind: str, earlier: int) -> int:
    """The first line of the document that makes an object of `kind`, after `earlier` others of it;
    the last one if a loop makes several, and 0 if there is none.
    """
    matches = [
        index
        for index, line in enumerate(lines)
        if (match := _KIND.match(line)) and match[1] == kind
    ]
    at = matches[min(earlier, len(matches) - 1)] if matches else -1
    while at > 0 and not lines[at - 1].startswith(("---", "{{")) and lines[at - 1].strip():
        at -= 1
    return at + 1


def resource_files(folders: Sequence[Path]) -> list[Resource]:
    """The documents of the manifests in `folders`."""
    several = []
    files = dict.fromkeys(
        each for folder in folders for each in sorted(folder.glob("**/*.y*ml")) if each.is_file()
    )
    for file in files:
        first = 1
        for text in re.split(r"^---.*\n", file.read_text(errors="replace"), flags=re.MULTILINE):
            kind = re.search(rf"^{_KIND.pattern}", text, re.MULTILINE)
            name = _NAME.search(text) or _INLINE_NAME.search(text)
            if kind and name:
                several.append((file, first, kind[1], name[1], len(text)))
            first += text.count("\n") + 1
    return several
