"""Lines of fields in the text of manifests and of templates, which no YAML parser reads."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

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
    for part in parse(field):
        place = (
            _item(lines, at, depth, part) if isinstance(part, int) else _key(lines, at, depth, part)
        )
        if place is None:
            break
        at, depth = place
    return at + 1


def _key(lines: Sequence[str], at: int, depth: int, key: str) -> tuple[int, int] | None:
    """Index and indentation of the line with `key` below the one at `at`, or on it."""
    wanted = re.compile(rf"[\"']?{re.escape(key)}[\"']?\s*:")
    inner = None
    for index in range(at, len(lines)):
        line = lines[index]
        if index > at and line.startswith("---"):
            break
        if _IGNORED.match(line):
            continue
        dash = len(line) - len(line.lstrip())
        indent = len((_INDENT.match(line) or [""])[0])
        if index > at and dash <= depth:
            break
        if indent > depth and (inner is None or indent <= inner):
            inner = indent
            if wanted.match(line, indent):
                return index, indent
    return None


def _item(lines: Sequence[str], at: int, depth: int, number: int) -> tuple[int, int] | None:
    """Index and indentation of the item `number` of the list below the line at `at`."""
    own: int | None = None
    for index in range(at + 1, len(lines)):
        line = lines[index]
        if line.startswith("---"):
            break
        if _IGNORED.match(line):
            continue
        indent = len(line) - len(line.lstrip())
        is_item = line.lstrip().startswith("-")
        if indent < depth or (indent == depth and not is_item):
            break
        if is_item and own in (None, indent):
            own = indent
            if not number:
                return index, indent
            number -= 1
    return None


def line_of_template(lines: Sequence[str], kind: str, earlier: int) -> int:
    """The first line of the document that makes an object of `kind`, after `earlier` others of it;
    the last one if a loop makes several, and 0 if there is none.
    """
    matches = [
        index
        for index, line in enumerate(lines)
        if (match := _KIND.match(line)) and match[1] == kind
    ]
    if not matches:
        return 0
    at = matches[min(earlier, len(matches) - 1)]
    while at and not lines[at - 1].startswith(("---", "{{")) and lines[at - 1].strip():
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
