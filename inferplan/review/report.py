"""A report on previews as data. Renderers choose the form; no text here is markup yet."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from typing import Any

from inferplan.documents.text import clean, one_line
from inferplan.pulumi_engine.reading.changes import PropertyChange
from inferplan.pulumi_engine.reading.events import STACK_TYPE
from inferplan.review.figures import Figures, Summary, figures_of
from inferplan.review.findings import Findings, table
from inferplan.review.reading.graph import Graph, component_of, graph_of
from inferplan.review.reading.preview import Preview
from inferplan.review.report_table import Table
from inferplan.review.risks.facts import StatedFacts, stated_facts
from inferplan.review.risks.guards import GuardReader, Guards
from inferplan.review.risks.policies import PolicyResult, RuleReader, label_of, policy_results
from inferplan.review.risks.stack_risks import stack_risks
from inferplan.review.speed import SpeedReader, SpeedReview
from inferplan.review.steps.kinds import ROUTINE
from inferplan.review.steps.risk import Risk
from inferplan.review.verdict import CALM, NOTHING, counts_text, origin_text, verdict

FORMAT = "inferplan-report/2"
WEIGHTS = ("🔴", "🟠", "🟡")
"""One for each weight of a risk."""
# Within a component, deletions come first.
_URGENCY = {"delete": 0, "discard": 0, "replace": 1, "update": 2, "create": 3, "import": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    """One resource that changes, with its property table."""

    op: str
    kind: str
    type: str
    name: str
    urn: str
    component: str
    failed: bool
    properties: tuple[PropertyChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackReport(Summary):
    """The report on one preview, with the summary of its figures. `exemptions` are the policy
    exemptions in force, as text.
    """

    source: str
    project: str
    stack: str
    origin: str
    planner: str
    verdict: str
    rank: int
    counts: dict[str, int]
    counts_text: str
    incomplete: str
    risks: tuple[Risk, ...]
    policies: tuple[PolicyResult, ...]
    policy_packs: tuple[str, ...]
    outputs: tuple[PropertyChange, ...]
    resources: tuple[ResourceChange, ...]
    diagnostics: tuple[tuple[str, str, str], ...]
    graph: Graph
    is_preview: bool = True
    exemptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: StatedFacts = field(default=StatedFacts({}, {}), metadata={"in_json": False})

    @property
    def serious(self) -> tuple[Risk, ...]:
        return tuple(each for each in self.risks if each.weight < ROUTINE)

    @property
    def routine(self) -> tuple[Risk, ...]:
        return tuple(each for each in self.risks if each.weight == ROUTINE)

    @property
    def title(self) -> str:
        """Project and stack, or the file's name if the stream does not name them."""
        return f"{self.project}/{self.stack}" if self.stack else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The origin of a report; the caller provides all of it."""

    commit: str = ""
    base: str = ""
    run_url: str = ""
    report_url: str = ""
    versions: tuple[str, ...] = ()
    reproduce: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All stacks of a change, the worst first; `rehearsals` are those of stacks without a preview."""

    verdict: str
    rank: int
    stacks: tuple[StackReport, ...]
    provenance: Provenance
    rehearsals: tuple[Table, ...] = ()


def make_report(
    previews: Sequence[Preview],
    *,
    provenance: Provenance | None = None,
    read_rule: RuleReader | None = None,
    rehearsals: Sequence[Findings] = (),
    read_guards: GuardReader | None = None,
    read_speed: SpeedReader | None = None,
) -> Report:
    """The report on `previews`, with the findings of rehearsals; the readers read packs, what
    guards a stack, and its speed.
    """
    reports = []
    for preview in previews:
        guards = read_guards(preview.stack) if read_guards and preview.stack else None
        findings = [each for each in rehearsals if each.stack == preview.stack]
        facts = stated_facts(preview)
        speed = (
            read_speed(preview.stack, facts.before, facts.after) if read_speed else SpeedReview()
        )
        reports.append(
            _stack_report(
                preview,
                figures_of(preview),
                policy_results(preview, read_rule),
                guards,
                findings,
                speed,
                facts,
            )
        )
    stacks = sorted(reports, key=lambda each: (each.rank, each.title, each.source))
    worst = stacks[0] if stacks else None
    line = worst.verdict if worst else "this change affects no stack"
    if worst and len(stacks) > 1 and worst.rank < CALM:
        line = f"{worst.title}: {line}"
    names = {each.stack for each in previews}
    others = [each for each in rehearsals if each.stack not in names]
    return Report(
        verdict=line,
        rank=worst.rank if worst else NOTHING,
        stacks=tuple(stacks),
        provenance=provenance or Provenance(),
        rehearsals=tuple(
            replace(content, title=f"{content.title} of {clean(each.stack)}")
            for each in others
            for content in [table(each)]
        ),
    )


def _stack_report(
    preview: Preview,
    figures: Figures,
    policies: tuple[PolicyResult, ...],
    guards: Guards | None,
    findings: Sequence[Findings],
    speed: SpeedReview,
    facts: StatedFacts,
) -> StackReport:
    risks = stack_risks(preview, figures, guards, others=speed.risks)
    line, rank = verdict(preview, risks, policies, figures, findings)
    summary = {each.name: getattr(figures, each.name) for each in fields(Summary)}
    summary["tables"] = (*figures.tables, *speed.tables, *map(table, findings))
    return StackReport(
        source=clean(preview.source),
        project=clean(preview.project),
        stack=clean(preview.stack),
        origin=origin_text(preview),
        planner=clean(preview.planner),
        verdict=line,
        rank=rank,
        counts=preview.counts,
        counts_text=counts_text(preview),
        incomplete=preview.incomplete,
        risks=risks,
        policies=policies,
        policy_packs=tuple(
            clean(f"{name.split('|')[0]} {version}".strip())
            for name, version in preview.policy_packs.items()
        ),
        outputs=preview.output_changes,
        resources=tuple(_resources(preview)),
        diagnostics=tuple(_diagnostics(preview)),
        graph=graph_of(preview),
        is_preview=preview.is_preview,
        exemptions=guards.in_force(preview) if guards else (),
        notes=preview.notes,
        facts=facts,
        **summary,
    )


def _resources(preview: Preview) -> list[ResourceChange]:
    by_urn = {step.urn: step for step in preview.steps}
    resources = [
        ResourceChange(
            op=clean(step.op),
            kind=clean(step.kind),
            type=clean(step.type),
            name=clean(step.name),
            urn=clean(step.urn),
            component=label_of(component_of(step, by_urn).urn),
            failed=step.failed,
            properties=step.changes,
        )
        for step in preview.changed
        if step.type != STACK_TYPE
    ]
    return sorted(
        resources, key=lambda each: (each.component, _URGENCY.get(each.op, 4), each.type, each.name)
    )


def _diagnostics(preview: Preview) -> Iterable[tuple[str, str, str]]:
    """Severity, resource and text, each once; a traceback's lines are put together."""
    messages: dict[tuple[str, str, str], None] = {}
    for each in preview.diagnostics:
        if each.severity in ("warning", "error"):
            messages[
                each.severity, label_of(each.urn) if each.urn else "", one_line(clean(each.message))
            ] = None
    return sorted(messages, key=lambda item: (item[0] != "error", item[1], item[2]))


def as_json(report: Report) -> str:
    """`report` as an indented JSON document; amounts of money are strings, so that nothing rounds
    them.
    """
    document = {"format": FORMAT, **_fields(report)}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return str(value)
    if is_dataclass(value):
        return _fields(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def _fields(record: Any) -> dict[str, Any]:
    # Not asdict, which copies the whole report before the first byte is written.
    return {
        each.name: getattr(record, each.name)
        for each in fields(record)
        if each.metadata.get("in_json", True)
    }
