"""Prints a plan: a line for each component with its resources, changed properties below, counts at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from rehearsal.engine.plan.steps import Plan, Step

_SIGNS = {"create": "[green]+[/]", "update": "[yellow]~[/]", "replace": "[magenta]+-[/]", "delete": "[red]-[/]", "same": " ", "read": "<"}
_WORDS = {
    "create": "to create",
    "update": "to change",
    "replace": "to replace",
    "delete": "to delete",
    "same": "unchanged",
    "read": "to read",
}


def show(plan: Plan, console: Console, *, everything: bool = False) -> None:
    """Print `plan`, without unchanged resources unless `everything` is set."""
    root = f"::{plan.states.project}-{plan.states.stack}"
    children: dict[str, list[Step]] = {}
    for step in plan.steps:
        parent = _parent(step)
        children.setdefault("" if parent.endswith(root) else parent, []).append(step)
    for step in children.get("", ()):
        inside = list(_below(step, children))
        ops = {each.op for each in (step, *inside)} - {"same", "read"}
        if not ops and not everything:
            continue
        sign = _SIGNS[ops.pop() if len(ops) == 1 else "update" if ops else "same"]
        console.print(f"{sign} {_label(step)}  [dim]{_kinds(inside)}[/]", highlight=False, soft_wrap=True)
        for each in inside:
            if each.op not in ("same", "create") or everything:
                console.print(f"    {_SIGNS[each.op]} {_label(each)}{_why(each)}", highlight=False, soft_wrap=True)
    counts = ", ".join(f"{count} {_WORDS.get(op, op)}" for op, count in plan.counts.items())
    console.print(f"{len(plan.states.resources)} resources: {counts}", highlight=False, soft_wrap=True)


def _parent(step: Step) -> str:
    state = step.new or step.old
    return state.parent if state is not None else ""


def _below(step: Step, children: dict[str, list[Step]]) -> Iterator[Step]:
    for child in children.get(step.urn, ()):
        yield child
        yield from _below(child, children)


def _label(step: Step) -> str:
    kind, name = step.urn.split("::")[-2:]
    return f"{kind.rpartition('$')[2].rpartition(':')[2]} {escape(name)}"


def _kinds(steps: list[Step]) -> str:
    counted = Counter(_label(step).partition(" ")[0] for step in steps)
    return ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in counted.items())


def _why(step: Step) -> str:
    if step.change is None:
        return ""
    changed = [each.text for each in step.change.differences]
    paths = ", ".join(escape(path) for path in changed[:4])
    more = len(changed) - 4
    return f"  [dim]{paths}{f' and {more} more' if more > 0 else ''}[/]" if paths else ""
