"""The changed resources as Markdown: a fold for each, with the table of its properties."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from review.changes import PropertyChange
from review.report import ResourceChange, StackReport
from review.text import code, differing_parts, one_line, prose, shortened
from review.verdict import DONE, VERBS

_SIGNS = {"create": "🆕", "import": "📥", "update": "✏️", "replace": "🔁", "delete": "🗑️", "discard": "🗑️"}
_CELL = 160
_MAX_ROWS = 60
_MAX_NAMES = 20


def resources(stack: StackReport) -> Iterator[str]:
    """One fold per changed resource; resources that change in the same way share one."""
    by_change: dict[object, list[ResourceChange]] = {}
    for each in stack.resources:
        by_change.setdefault((each.op, each.type, each.failed, each.properties), []).append(each)
    groups = sorted((members for members in by_change.values() if len(members) > 1), key=len, reverse=True)
    for members in groups:
        first = members[0]
        names = ", ".join(code(each.name) for each in members[:_MAX_NAMES])
        more = f" and {len(members) - _MAX_NAMES:,} more" if len(members) > _MAX_NAMES else ""
        subject = f"{len(members):,} {prose(first.kind)}s"
        yield f"<details><summary>{_summary(first, stack, subject)}</summary>\n\n{names}{more}\n\n{properties(first.properties)}\n</details>\n\n"
    yield from _single(stack, {id(each) for members in groups for each in members})


def _single(stack: StackReport, grouped_ids: set[int]) -> Iterator[str]:
    alone = [each for each in stack.resources if id(each) not in grouped_ids]
    for component, members in groupby(alone, key=lambda each: each.component):
        for index, each in enumerate(members):
            head = f"**{code(component)}**\n\n" if index == 0 else ""
            summary = _summary(each, stack, code(f"{each.kind} {each.name}"))
            yield f"{head}<details><summary>{summary}</summary>\n\n{properties(each.properties)}\n</details>\n\n"


def _summary(each: ResourceChange, stack: StackReport, subject: str) -> str:
    verb = VERBS.get(each.op, each.op)
    verb = verb if stack.is_preview else DONE.get(verb, verb)
    return f"{_SIGNS.get(each.op, '•')} {prose(verb)}: {subject}{' · failed' if each.failed else ''}{_causes(each)}"


def _causes(resource: ResourceChange) -> str:
    paths = [each.path for each in resource.properties if each.replaces] or [each.path for each in resource.properties]
    if resource.op in ("create", "delete", "discard", "import") or not paths:
        return ""
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f" · {', '.join(code(shortened(path, 80)) for path in paths[:3])}{more}"


def properties(changes: tuple[PropertyChange, ...]) -> str:
    if not changes:
        return "The engine sent no properties.\n"
    lines = ["| property | old | new |", "|---|---|---|"]
    lines += [f"| {code(each.path)}{' 🔁' if each.replaces else ''} | {_cells(each)} |" for each in changes[:_MAX_ROWS]]
    if len(changes) > _MAX_ROWS:
        lines.append(f"| … and {len(changes) - _MAX_ROWS} more properties, see the HTML report | | |")
    return "\n".join(lines) + "\n"


def _cells(change: PropertyChange) -> str:
    return " | ".join(code(one_line(text)) if text else "" for text in differing_parts(change.old, change.new, _CELL))
