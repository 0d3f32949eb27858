"""The report as Markdown for a comment: the verdict first, then risk, then detail, within a budget
of characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from inferplan.documents.text import attribute, code, prose, shortened
from inferplan.review.reading.graph import mermaid, tree
from inferplan.review.rendering.resources import properties, resources
from inferplan.review.report import WEIGHTS, Report, StackReport
from inferplan.review.report_table import Table
from inferplan.review.risks.policies import PolicyResult
from inferplan.review.steps.risk import Risk
from inferplan.review.verdict import FAILED, ICONS, messages_text, plural, routine_text

DEFAULT_BUDGET = 60_000
_LEVELS = {"mandatory": "⛔", "remediate": "🔧", "advisory": "💡"}
_MAX_FINDINGS = 10
_MAX_COMPONENTS = 40


def render(report: Report, *, budget: int = DEFAULT_BUDGET) -> str:
    """`report` as Markdown of at most `budget` characters. Raises ValueError when the budget cannot
    hold even its frame.
    """
    sections = [Section(head=_head(report))]
    for stack in report.stacks:
        sections += _stack(stack, alone=len(report.stacks) == 1)
    sections += map(_rows, report.rehearsals)
    sections.append(Section(head=_footer(report)))
    link = report.provenance.report_url
    more = f"; see the [full report]({_url(link)})" if link else "; see the HTML report"
    return fit(sections, budget, more=more)


def marker(report: Report) -> str:
    stacks = ",".join(attribute(each.title) for each in report.stacks)
    return f"<!-- inferplan:preview v1 stacks={stacks[:500]} sha={attribute(report.provenance.commit)} -->"


def _head(report: Report) -> str:
    lines = [marker(report)]
    if len(report.stacks) == 1:
        stack = report.stacks[0]
        change = f" · {prose(stack.cost_change)} a month" if stack.cost_change else ""
        lines.append(
            f"## {ICONS[stack.rank]} {code(stack.title)}: {prose(stack.verdict)} · {prose(stack.counts_text)}{change}\n"
        )
        return "\n".join(lines) + "\n"
    count = f" · {len(report.stacks)} stacks" if report.stacks else ""
    lines.append(f"## {ICONS[report.rank]} {prose(report.verdict)}{count}\n")
    if report.stacks:
        lines += [*_HEADS, *(_row(each) for each in report.stacks)]
    return "\n".join(lines) + "\n\n"


_HEADS = (
    "| stack | verdict | resources | accelerators | memory | monthly cost |",
    "|---|---|---|---|---|---|",
)


def _row(stack: StackReport) -> str:
    change = f" ({stack.cost_change})" if stack.cost_change else ""
    cost = f"{stack.cost}{change}" if stack.cost else "not judged"
    cells = (stack.counts_text, stack.accelerators or "none", stack.memory or "none", cost)
    return f"| {code(stack.title)} | {ICONS[stack.rank]} {prose(stack.verdict)} | {' | '.join(map(prose, cells))} |"


def _stack(stack: StackReport, *, alone: bool) -> Iterator[Section]:
    if not alone:
        yield Section(
            head=f"\n## {ICONS[stack.rank]} {code(stack.title)}: {prose(stack.verdict)}\n\n"
        )
    cautions = (
        [f"This preview is incomplete: {prose(stack.incomplete)}. Changes may be missing below."]
        if stack.incomplete
        else []
    )
    cautions += [f"Budget: {prose(stack.over_budget)}."] if stack.over_budget else []
    yield from (Section(head=f"> [!CAUTION]\n> {caution}\n\n") for caution in cautions)
    messages = [
        f"- {prose(severity)} {where and code(where)} {prose(shortened(text, 600))}\n"
        for severity, where, text in stack.diagnostics
    ]
    if messages and stack.rank == FAILED:
        # The only thing to read about a failed run is its reason.
        yield Section(head="### Errors\n\n", items=messages, tail="\n", noun="message", rank=1)
    yield from _blocking(stack)
    if stack.serious:
        yield Section(
            head="### Risks\n\n", items=[*map(_risk, stack.serious)], tail="\n", noun="risk", rank=1
        )
    if stack.routine:
        yield _folded(routine_text(stack.routine), [*map(_risk, stack.routine)], "line", 3)
    yield from () if _is_blocked(stack) else _policies(stack)
    new_tables = [table for table in stack.tables if table.changed and not table.blocks]
    if alone and new_tables:
        yield Section(head="\n".join((*_HEADS, _row(stack))) + "\n\n")
    yield from map(_rows, new_tables)
    if titles := [table.title.lower() for table in stack.tables if not table.changed]:
        cost = (
            f" ({prose(stack.cost)})"
            if stack.cost and any("cost" in each for each in titles)
            else ""
        )
        yield Section(head=f"Unchanged: {prose(', '.join(titles))}{cost}.\n\n")
    yield from _picture(stack)
    if stack.outputs:
        yield _folded(
            f"{plural(len(stack.outputs), 'change')} of stack outputs",
            [properties(stack.outputs)],
            "table",
            4,
        )
    if messages and stack.rank != FAILED:
        yield _folded(messages_text(stack.diagnostics), messages, "message", 5)
    if stack.resources:
        yield Section(
            head="### Resources\n\n",
            items=list(resources(stack)),
            tail="\n",
            noun="resource",
            rank=9,
        )
    yield from (Section(head=f"{prose(each)}\n\n") for each in stack.notes)
    yield Section(head=f"<sub>{prose(stack.title)} was {prose(stack.origin)}.</sub>\n\n")


def _blocking(stack: StackReport) -> Iterator[Section]:
    """The sections on what blocks the change, which come before its risks."""
    yield from (_rows(table) for table in stack.tables if table.blocks)
    if _is_blocked(stack):
        yield from _policies(stack)


def _is_blocked(stack: StackReport) -> bool:
    return any(each.level == "mandatory" and each.evaluated for each in stack.policies)


def _policies(stack: StackReport) -> Iterator[Section]:
    results = [_policy(each) for each in stack.policies if each.evaluated]
    if results:
        yield Section(head="### Policy\n\n", items=results, tail="\n", noun="policy result", rank=2)
    undecided = [_policy(each) for each in stack.policies if not each.evaluated]
    if undecided:
        count = "1 policy" if len(undecided) == 1 else f"{len(undecided)} policies"
        yield _folded(
            f"{count} could not be evaluated: a value is unknown before the update",
            undecided,
            "policy result",
            6,
        )
    # An interrupted run did not finish asking its policy packs.
    if stack.policy_packs and stack.rank > FAILED:
        verdict = "judged by" if stack.policies else "no violation found by"
        yield Section(
            head=f"Policy: {verdict} {', '.join(map(code, stack.policy_packs))}{_exemptions(stack)}.\n\n"
        )
    elif stack.exemptions:
        yield Section(head=f"Policy:{_exemptions(stack)}.\n\n")


def _exemptions(stack: StackReport) -> str:
    """The exemptions in force, counted by rule; the page has their reasons."""
    if not stack.exemptions:
        return ""
    rules = Counter(each.partition(" for ")[0] for each in stack.exemptions)
    names = ", ".join(
        f"{code(rule)}{f' ({count})' if count > 1 else ''}" for rule, count in sorted(rules.items())
    )
    return f" with {plural(len(stack.exemptions), 'exemption')} in force: {names}"


def _risk(risk: Risk) -> str:
    end = f": {prose(risk.consequence)}" if risk.consequence else ""
    subject = code(f"{risk.kind} {risk.name}")
    return f"- {WEIGHTS[risk.weight]} **{prose(risk.what)}** {subject}{end}. <sub>Cause: {prose(risk.cause)}</sub>\n"


def _policy(result: PolicyResult) -> str:
    severity = f" ({prose(result.severity)})" if result.severity else ""
    about = f" — {prose(result.description)}" if result.description else ""
    icon = _LEVELS.get(result.level, "•")
    lines = [
        f"- {icon} **{prose(result.level)}**{severity} {code(result.policy)}{about} <sub>{prose(result.pack)}</sub>\n"
    ]
    lines += [
        f"  - {code(label)}: {prose(shortened(detail, 600))}\n"
        for label, detail in result.findings[:_MAX_FINDINGS]
    ]
    if len(result.findings) > _MAX_FINDINGS:
        lines.append(f"  - and {len(result.findings) - _MAX_FINDINGS} more resources\n")
    return "".join(lines)


def _picture(stack: StackReport) -> Iterator[Section]:
    if stack.graph.drawable:
        picture = f"```mermaid\n{mermaid(stack.graph)}\n```\n"
        yield _folded(
            f"Picture of {plural(len(stack.graph.nodes), 'changed component')}",
            [picture],
            "picture",
            7,
        )
    elif stack.graph.nodes:
        lines = tree(stack.graph)
        items = [f"- {code(line)}\n" for line in lines[:_MAX_COMPONENTS]]
        items += [f"- and {len(lines) - len(items):,} more\n"] if len(lines) > len(items) else []
        yield _folded(plural(len(lines), "changed component"), items, "component", 10)


def _rows(table: Table) -> Section:
    head = f"### {prose(table.title)}\n\n| {' | '.join(map(prose, table.columns))} |\n|{'---|' * len(table.columns)}\n"
    rows = [f"| {' | '.join(map(prose, row))} |\n" for row in table.rows]
    notes = "".join(f"\n<sub>{prose(note)}</sub>\n" for note in table.notes)
    return Section(head=head, items=rows, tail=f"{notes}\n", noun="row", rank=3)


def _folded(summary: str, items: list[str], noun: str, rank: int) -> Section:
    return Section(
        head=f"<details><summary>{prose(summary)}</summary>\n\n",
        items=items,
        tail="\n</details>\n\n",
        noun=noun,
        rank=rank,
    )


def _footer(report: Report) -> str:
    origin = report.provenance
    parts = [f"commit {code(origin.commit)}"] if origin.commit else []
    parts += [f"against {code(origin.base)}"] if origin.base else []
    parts += [prose(each) for each in origin.versions]
    parts += [f"[run]({_url(origin.run_url)})"] if origin.run_url else []
    parts += [f"[full report]({_url(origin.report_url)})"] if origin.report_url else []
    lines = (
        [f"Reproduce: {' then '.join(map(code, origin.reproduce))}\n"] if origin.reproduce else []
    )
    lines += [f"<sub>{' · '.join(parts)}</sub>\n"] if parts else []
    return "\n".join(["---\n", *lines])


def _url(url: str) -> str:
    return "".join(
        char if char.isalnum() or char in "-._~:/?#@!$&*+,;=%" else f"%{ord(char):02X}"
        for char in url
        if ord(char) < 128
    )


# GitHub rejects bodies of more than 65,536 characters; some systems count bytes, three for each
# character at most.
BYTES_PER_CHARACTER = 3


@dataclass(slots=True)
class Section:
    """A heading, items that can be left out one by one from the last, called `noun`, and an end.
    The highest `rank` is cut first.
    """

    head: str = ""
    items: list[str] = field(default_factory=list)
    tail: str = ""
    noun: str = ""
    rank: int = 0
    left_out: int = 0

    def text(self, more: str) -> str:
        """The text of the section; `more` says where the rest is."""
        return f"{self.head}{''.join(self.items)}{self.note(more)}{self.tail}"

    def note(self, more: str) -> str:
        """The line that says how many items are left out, "" where none is."""
        nouns = self.noun if self.left_out == 1 else f"{self.noun}s"
        return (
            f"\n_… {self.left_out} more {nouns} left out to save space{more}_\n"
            if self.left_out
            else ""
        )


def fit(sections: list[Section], budget: int, *, more: str = "") -> str:
    """The sections as one text of at most `budget` characters and three times as many bytes. Raises
    ValueError if they cannot fit.
    """
    room = budget - sum(len(section.text(more)) for section in sections)
    room_bytes = budget * BYTES_PER_CHARACTER - sum(
        len(section.text(more).encode()) for section in sections
    )
    # Of two sections with the same rank, the later one is shortened first.
    for section in sorted(
        (each for each in reversed(sections) if each.rank), key=lambda each: -each.rank
    ):
        while section.items and (room < 0 or room_bytes < 0):
            before = section.items[-1] + section.note(more)
            section.items.pop()
            section.left_out += 1
            room += len(before) - len(section.note(more))
            room_bytes += len(before.encode()) - len(section.note(more).encode())
    text = "".join(section.text(more) for section in sections)
    if len(text) > budget or len(text.encode()) > budget * BYTES_PER_CHARACTER:
        raise ValueError(
            f"A budget of {budget} characters is too small. The report needs --budget {len(text)}."
        )
    return text
