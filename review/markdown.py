"""The report as Markdown for a comment: the verdict first, then danger, then detail, within a budget of characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from review.budget import Section, fit
from review.changes import PropertyChange
from review.danger import Danger
from review.figures import Table
from review.graph import mermaid, tree
from review.kinds import ROUTINE
from review.policies import PolicyResult
from review.report import DONE, VERBS, WEIGHTS, Report, ResourceChange, StackReport, messages_text
from review.text import attribute, code, one_line, prose, shortened, told_apart
from review.verdict import FAILED, ICONS, plural

DEFAULT_BUDGET = 60_000
SMALLEST_BUDGET = 4_000
_LEVELS = {"mandatory": "⛔", "remediate": "🔧", "advisory": "💡"}
_SIGNS = {"create": "🆕", "import": "📥", "update": "✏️", "replace": "🔁", "delete": "🗑️", "discard": "🗑️"}
_CELL = 160
_MAX_ROWS = 60
_MAX_FINDINGS = 10
_MAX_NAMES = 20
_MAX_COMPONENTS = 40


def render(report: Report, *, budget: int = DEFAULT_BUDGET) -> str:
    """`report` as Markdown of at most `budget` characters. Raises ValueError when the budget cannot hold even its frame."""
    sections = [Section(head=_head(report))]
    for stack in report.stacks:
        sections += _stack(stack, alone=len(report.stacks) == 1)
    sections += map(_rows, report.rehearsals)
    sections.append(Section(head=_footer(report)))
    link = report.provenance.report_url
    more = f"; they are in the [full report]({_url(link)})" if link else "; they are in the HTML report"
    return fit(sections, budget, more=more)


def marker(report: Report) -> str:
    """The first line, by which the comment is found again."""
    stacks = ",".join(attribute(each.title) for each in report.stacks)
    return f"<!-- inferplan:preview v1 stacks={stacks[:500]} sha={attribute(report.provenance.commit)} -->"


def _head(report: Report) -> str:
    lines = [marker(report)]
    if len(report.stacks) == 1:
        stack = report.stacks[0]
        change = f" · {prose(stack.cost_change)} a month" if stack.cost_change else ""
        lines.append(f"## {ICONS[stack.rank]} {code(stack.title)}: {prose(stack.verdict)} · {prose(stack.counts_text)}{change}\n")
        return "\n".join(lines) + "\n"
    count = f" · {len(report.stacks)} stacks" if report.stacks else ""
    lines.append(f"## {ICONS[report.rank]} {prose(report.verdict)}{count}\n")
    if report.stacks:
        lines += [*_HEADS, *(_row(each) for each in report.stacks)]
    return "\n".join(lines) + "\n\n"


_HEADS = ("| stack | verdict | resources | accelerators | memory | cost a month |", "|---|---|---|---|---|---|")


def _row(stack: StackReport) -> str:
    change = f" ({stack.cost_change})" if stack.cost_change else ""
    told = (
        stack.counts_text,
        stack.accelerators or "none",
        stack.memory or "none",
        f"{stack.cost}{change}" if stack.cost else "not judged",
    )
    return f"| {code(stack.title)} | {ICONS[stack.rank]} {prose(stack.verdict)} | {' | '.join(map(prose, told))} |"


def _stack(stack: StackReport, *, alone: bool) -> Iterator[Section]:
    if not alone:
        yield Section(head=f"\n## {ICONS[stack.rank]} {code(stack.title)}: {prose(stack.verdict)}\n\n")
    if stack.incomplete:
        yield Section(head=f"> [!CAUTION]\n> This preview is not whole: {prose(stack.incomplete)}. What follows may lack changes.\n\n")
    if stack.over_budget:
        yield Section(head=f"> [!CAUTION]\n> Budget: {prose(stack.over_budget)}.\n\n")
    said = [
        f"- {prose(severity)} {code(where) if where else ''} {prose(shortened(text, 600))}\n" for severity, where, text in stack.diagnostics
    ]
    if said and stack.rank == FAILED:
        # Of a run that failed, the reason is all that there is to read.
        yield Section(head="### Errors\n\n", items=said, tail="\n", noun="message", rank=1)
    yield from _dangers(stack)
    yield from _policies(stack)
    changed = [table for table in stack.tables if table.changed]
    if alone and changed:
        yield Section(head="\n".join((*_HEADS, _row(stack))) + "\n\n")
    yield from map(_rows, changed)
    if alike := [table.title.lower() for table in stack.tables if not table.changed]:
        cost = f" ({prose(stack.cost)})" if stack.cost and any("cost" in each for each in alike) else ""
        yield Section(head=f"Unchanged: {prose(', '.join(alike))}{cost}.\n\n")
    yield from _picture(stack)
    if stack.outputs:
        yield _folded(f"{len(stack.outputs)} stack outputs change", [_table(stack.outputs)], "table", 4)
    if said and stack.rank != FAILED:
        yield _folded(messages_text(stack), said, "message", 5)
    if stack.resources:
        yield Section(head="### Resources\n\n", items=list(_resources(stack)), tail="\n", noun="resource", rank=9)
    yield from (Section(head=f"{prose(each)}\n\n") for each in stack.notes)
    yield Section(head=f"<sub>{prose(stack.title)} was {prose(stack.origin)}.</sub>\n\n")


def _dangers(stack: StackReport) -> Iterator[Section]:
    serious = [_danger(each) for each in stack.dangers if each.weight < ROUTINE]
    if serious:
        yield Section(head="### Danger\n\n", items=serious, tail="\n", noun="danger", rank=1)
    routine = [_danger(each) for each in stack.dangers if each.weight >= ROUTINE]
    if routine:
        yield _folded(
            f"{plural(len(routine), 'routine step')}, deletions and replacements by which no data, access or answers are lost",
            routine,
            "line",
            3,
        )


def _policies(stack: StackReport) -> Iterator[Section]:
    evaluated = [_policy(each) for each in stack.policies if each.evaluated]
    if evaluated:
        yield Section(head="### Policy\n\n", items=evaluated, tail="\n", noun="policy result", rank=2)
    unsure = [_policy(each) for each in stack.policies if not each.evaluated]
    if unsure:
        yield _folded(f"{len(unsure)} policies could not be evaluated: a value is not known before up", unsure, "policy result", 6)
    # A run that broke off has not asked its packs to the end.
    if stack.policy_packs and not stack.policies and stack.rank > FAILED:
        yield Section(head=f"Policy: no violation found by {', '.join(map(code, stack.policy_packs))}{_exemptions(stack)}.\n\n")
    elif stack.exemptions:
        yield Section(head=f"Policy:{_exemptions(stack)}.\n\n")


def _exemptions(stack: StackReport) -> str:
    """The exemptions in force, counted by rule; the page has their reasons."""
    if not stack.exemptions:
        return ""
    rules = Counter(each.partition(" for ")[0] for each in stack.exemptions)
    listed = ", ".join(f"{code(rule)}{f' ({count})' if count > 1 else ''}" for rule, count in sorted(rules.items()))
    return f" beside {plural(len(stack.exemptions), 'exemption')} in force: {listed}"


def _danger(danger: Danger) -> str:
    end = f": {prose(danger.consequence)}" if danger.consequence else ""
    return f"- {WEIGHTS[danger.weight]} **{prose(danger.what)}** {code(f'{danger.kind} {danger.name}')}{end}. <sub>Cause: {prose(danger.cause)}</sub>\n"


def _policy(result: PolicyResult) -> str:
    severity = f" ({prose(result.severity)})" if result.severity else ""
    about = f" — {prose(result.description)}" if result.description else ""
    lines = [
        f"- {_LEVELS.get(result.level, '•')} **{prose(result.level)}**{severity} {code(result.policy)}{about} <sub>{prose(result.pack)}</sub>\n"
    ]
    lines += [f"  - {code(label)}: {prose(shortened(detail, 600))}\n" for label, detail in result.findings[:_MAX_FINDINGS]]
    if len(result.findings) > _MAX_FINDINGS:
        lines.append(f"  - and {len(result.findings) - _MAX_FINDINGS} more resources\n")
    return "".join(lines)


def _picture(stack: StackReport) -> Iterator[Section]:
    if stack.graph.drawable:
        picture = f"```mermaid\n{mermaid(stack.graph)}\n```\n"
        yield _folded(f"Picture of {len(stack.graph.nodes)} changed components", [picture], "picture", 7)
    elif stack.graph.nodes:
        lines = [f"- {code(line)}\n" for line in tree(stack.graph)]
        shown = lines[:_MAX_COMPONENTS]
        if len(lines) > len(shown):
            shown.append(f"- and {len(lines) - len(shown):,} more\n")
        yield _folded(f"{len(lines)} changed components", shown, "component", 10)


def _rows(table: Table) -> Section:
    head = f"### {prose(table.title)}\n\n| {' | '.join(map(prose, table.columns))} |\n|{'---|' * len(table.columns)}\n"
    rows = [f"| {' | '.join(map(prose, row))} |\n" for row in table.rows]
    notes = "".join(f"\n<sub>{prose(note)}</sub>\n" for note in table.notes)
    return Section(head=head, items=rows, tail=f"{notes}\n", noun="row", rank=3)


def _folded(summary: str, items: list[str], noun: str, rank: int) -> Section:
    return Section(head=f"<details><summary>{prose(summary)}</summary>\n\n", items=items, tail="\n</details>\n\n", noun=noun, rank=rank)


def _resources(stack: StackReport) -> Iterator[str]:
    alike: dict[object, list[ResourceChange]] = {}
    for each in stack.resources:
        alike.setdefault((each.op, each.type, each.failed, each.properties), []).append(each)
    groups = sorted((members for members in alike.values() if len(members) > 1), key=len, reverse=True)
    for members in groups:
        first = members[0]
        names = ", ".join(code(each.name) for each in members[:_MAX_NAMES])
        more = f" and {len(members) - _MAX_NAMES:,} more" if len(members) > _MAX_NAMES else ""
        subject = f"{len(members):,} {prose(first.kind)}s"
        yield f"<details><summary>{_summary(first, stack, subject)}</summary>\n\n{names}{more}\n\n{_table(first.properties)}\n</details>\n\n"
    yield from _single(stack, {id(each) for members in groups for each in members})


def _single(stack: StackReport, told: set[int]) -> Iterator[str]:
    alone = [each for each in stack.resources if id(each) not in told]
    for component, members in groupby(alone, key=lambda each: each.component):
        for index, each in enumerate(members):
            head = f"**{code(component)}**\n\n" if index == 0 else ""
            summary = _summary(each, stack, code(f"{each.kind} {each.name}"))
            yield f"{head}<details><summary>{summary}</summary>\n\n{_table(each.properties)}\n</details>\n\n"


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


def _table(changes: tuple[PropertyChange, ...]) -> str:
    if not changes:
        return "No property is told.\n"
    lines = ["| property | old | new |", "|---|---|---|"]
    lines += [f"| {code(each.path)}{' 🔁' if each.replaces else ''} | {_cells(each)} |" for each in changes[:_MAX_ROWS]]
    if len(changes) > _MAX_ROWS:
        lines.append(f"| … and {len(changes) - _MAX_ROWS} more properties, see the HTML report | | |")
    return "\n".join(lines) + "\n"


def _cells(change: PropertyChange) -> str:
    return " | ".join(code(one_line(text)) if text else "" for text in told_apart(change.old, change.new, _CELL))


def _footer(report: Report) -> str:
    origin = report.provenance
    parts = [f"commit {code(origin.commit)}"] if origin.commit else []
    parts += [f"against {code(origin.base)}"] if origin.base else []
    parts += [prose(each) for each in origin.versions]
    parts += [f"[run]({_url(origin.run_url)})"] if origin.run_url else []
    parts += [f"[full report]({_url(origin.report_url)})"] if origin.report_url else []
    lines = ["---\n"]
    if origin.reproduce:
        lines.append(f"Reproduce: {' then '.join(map(code, origin.reproduce))}\n")
    if parts:
        lines.append(f"<sub>{' · '.join(parts)}</sub>\n")
    return "\n".join(lines)


def _url(url: str) -> str:
    return "".join(char if char.isalnum() or char in "-._~:/?#@!$&*+,;=%" else f"%{ord(char):02X}" for char in url if ord(char) < 128)
