"""The changed resources as Markdown: a fold for each, with the table of its properties."""

from collections.abc import Iterator
from itertools import groupby

from inferplan.documents.text import code, differing_parts, joined, one_line, prose, shortened
from inferplan.pulumi_engine.reading.changes import PropertyChange
from inferplan.review.report import ResourceChange, StackReport
from inferplan.review.verdict import verb_of

_SIGNS = {
    "create": "🆕",
    "import": "📥",
    "update": "✏️",
    "replace": "🔁",
    "delete": "🗑️",
    "discard": "🗑️",
}
_CELL = 160
_MAX_ROWS = 60
_MAX_NAMES = 20


def resources(stack: StackReport) -> Iterator[str]:
    """One fold per changed resource; resources that change in the same way share one, the largest
    groups first.
    """
    by_change: dict[object, list[ResourceChange]] = {}
    for each in stack.resources:
        by_change.setdefault((each.op, each.type, each.failed, each.properties), []).append(each)
    for members in sorted(by_change.values(), key=len, reverse=True):
        if len(members) > 1:
            names = joined([code(each.name) for each in members], _MAX_NAMES)
            yield _fold(
                members[0], stack, f"{len(members):,} {prose(members[0].kind)}s", f"{names}\n\n"
            )
    single = [members[0] for members in by_change.values() if len(members) == 1]
    for component, alone in groupby(single, key=lambda each: each.component):
        for index, each in enumerate(alone):
            yield (f"**{code(component)}**\n\n" if index == 0 else "") + _fold(
                each, stack, code(f"{each.kind} {each.name}")
            )


def _fold(each: ResourceChange, stack: StackReport, subject: str, names: str = "") -> str:
    return f"<details><summary>{_summary(each, stack, subject)}</summary>\n\n{names}{properties(each.properties)}\n</details>\n\n"


def _summary(each: ResourceChange, stack: StackReport, subject: str) -> str:
    verb = verb_of(each.op, is_preview=stack.is_preview)
    return (
        f"{_SIGNS.get(each.op, '•')} {prose(verb)}:"
        f" {subject}{' · failed' if each.failed else ''}{_causes(each)}"
    )


def _causes(resource: ResourceChange) -> str:
    paths = [each.path for each in resource.properties if each.replaces] or [
        each.path for each in resource.properties
    ]
    if resource.op in ("create", "delete", "discard", "import") or not paths:
        return ""
    return f" · {joined([code(shortened(path, 80)) for path in paths], 3)}"


def properties(changes: tuple[PropertyChange, ...]) -> str:
    if not changes:
        return "The engine sent no properties.\n"
    lines = ["| property | old | new |", "|---|---|---|"]
    lines += [
        f"| {code(each.path)}{' 🔁' if each.replaces else ''} | {_cells(each)} |"
        for each in changes[:_MAX_ROWS]
    ]
    if len(changes) > _MAX_ROWS:
        lines.append(
            f"| … and {len(changes) - _MAX_ROWS} more properties, see the HTML report | | |"
        )
    return "\n".join(lines) + "\n"


def _cells(change: PropertyChange) -> str:
    return " | ".join(
        code(one_line(text)) if text else ""
        for text in differing_parts(change.old, change.new, _CELL)
    )
