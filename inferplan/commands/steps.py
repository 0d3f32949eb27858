"""Words for the steps of a plan."""

from rich.markup import escape

from inferplan.pulumi_engine.plan.steps import Step

WORDS = {
    "create": "to create",
    "update": "to change",
    "replace": "to replace",
    "delete": "to delete",
    "same": "unchanged",
    "read": "to read",
}


def label(step: Step) -> str:
    kind, name = step.urn.split("::")[-2:]
    return f"{kind.rpartition('$')[2].rpartition(':')[2]} {escape(name)}"


def reasons(step: Step) -> str:
    if step.change is None:
        return ""
    changed = [each.text for each in step.change.differences]
    paths = ", ".join(escape(path) for path in changed[:4])
    more = len(changed) - 4
    return f"  [dim]{paths}{f' and {more} more' if more > 0 else ''}[/]" if paths else ""
