"""A report: everything that is said about some previews, as data. Renderers only choose form; no text here is markup yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from review.access import lost_access
from review.capacity import OfferReader
from review.changes import PropertyChange
from review.danger import REPLACED, Danger, once
from review.events import STACK_TYPE
from review.figures import Table, figures_of
from review.findings import Findings, table
from review.graph import Graph, graph_of
from review.guards import GuardReader, guard_risks
from review.outage import outages
from review.policies import PolicyResult, RuleReader, label_of, policy_results
from review.preview import Preview
from review.removal import softened
from review.renamed import risks_of
from review.summary import StepSummary
from review.text import clean, one_line
from review.verdict import CALM, NOTHING, plural, verdict

VERBS = {
    "create": "to create",
    "import": "to import",
    "update": "to update",
    "replace": "to replace",
    "delete": "to delete",
    "discard": "to forget",
    "read": "to read",
    "same": "unchanged",
}
WEIGHTS = ("🔴", "🟠", "🟡")
"""One for each weight of a danger."""
DONE = {"to create": "created", "to import": "imported", "to update": "updated", "to replace": "replaced", "to delete": "deleted"}
"""The words of an update for those of a preview."""
_OPS = tuple(VERBS)
# Within a component, what ends comes first.
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
class StackReport:
    """What is said about one preview."""

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
    dangers: tuple[Danger, ...]
    policies: tuple[PolicyResult, ...]
    policy_packs: tuple[str, ...]
    outputs: tuple[PropertyChange, ...]
    resources: tuple[ResourceChange, ...]
    diagnostics: tuple[tuple[str, str, str], ...]
    graph: Graph
    is_preview: bool = True
    exemptions: tuple[str, ...] = ()
    """The exemptions from policies that are in force, in words."""
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    over_budget: str = ""
    accelerators: str = ""
    memory: str = ""
    cost: str = ""
    cost_change: str = ""

    @property
    def title(self) -> str:
        """Project and stack, or the file's name where the stream names neither."""
        return f"{self.project}/{self.stack}" if self.stack else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What the reader of a report needs to find his way back: all of it given by the caller, nothing looked up."""

    commit: str = ""
    base: str = ""
    run_url: str = ""
    report_url: str = ""
    versions: tuple[str, ...] = ()
    reproduce: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All stacks of a change, the worst first."""

    verdict: str
    rank: int
    stacks: tuple[StackReport, ...]
    provenance: Provenance
    rehearsals: tuple[Table, ...] = ()
    """Rehearsals of stacks that no preview was given of."""


def make_report(
    previews: Sequence[Preview],
    *,
    provenance: Provenance | None = None,
    read_offer: OfferReader | None = None,
    read_rule: RuleReader | None = None,
    rehearsals: Sequence[Findings] = (),
    read_guards: GuardReader | None = None,
) -> Report:
    """The report on `previews`, with what was found when their change was rehearsed.

    `read_offer` reads what components say of their pools, see `capacity`; `read_rule` what packs say of their rules, see `policies`;
    `read_guards` what guards a stack, see `guards`.
    """
    stacks = sorted(
        (stack_report(each, read_offer, rehearsals, read_rule, read_guards) for each in previews),
        key=lambda each: (each.rank, each.title, each.source),
    )
    worst = stacks[0] if stacks else None
    line = worst.verdict if worst else "no stack is touched by this change"
    if worst and len(stacks) > 1 and worst.rank < CALM:
        line = f"{worst.title}: {line}"
    known = {each.stack for each in previews}
    return Report(
        verdict=line,
        rank=worst.rank if worst else NOTHING,
        stacks=tuple(stacks),
        provenance=provenance or Provenance(),
        rehearsals=tuple(
            replace(table(each), title=f"Rehearsed upgrade of {clean(each.stack)}") for each in rehearsals if each.stack not in known
        ),
    )


def stack_report(
    preview: Preview,
    read_offer: OfferReader | None = None,
    rehearsals: Sequence[Findings] = (),
    read_rule: RuleReader | None = None,
    read_guards: GuardReader | None = None,
) -> StackReport:
    """What there is to say about one preview."""
    by_urn = {step.urn: step for step in preview.steps}
    changed = [step for step in preview.changed if step.type != STACK_TYPE]
    figures = figures_of(preview, read_offer)
    guards = read_guards(preview.stack) if read_guards and preview.stack else None
    told = softened(risks_of(preview.steps), preview)
    dangers = once((*lost_access(preview), *sorted(told, key=lambda each: each.order), *guard_risks(preview, guards)))
    dangers += outages(figures, told={each.urn for each in dangers if each.what == REPLACED})
    resources = [_resource(step, by_urn) for step in changed]
    policies = policy_results(preview, read_rule)
    rehearsed = [each for each in rehearsals if each.stack == preview.stack]
    judged, rank = verdict(preview, dangers, policies, figures, rehearsed)
    return StackReport(
        source=clean(preview.source),
        project=clean(preview.project),
        stack=clean(preview.stack),
        origin=_origin(preview),
        planner=clean(preview.planner),
        verdict=judged,
        rank=rank,
        counts=preview.counts,
        counts_text=counts_text(preview),
        incomplete=preview.incomplete,
        dangers=tuple(sorted(dangers, key=lambda each: (each.weight, not each.refused, each.order, each.what, each.urn, each.cause))),
        policies=policies,
        policy_packs=tuple(clean(f"{name.split('|')[0]} {version}".strip()) for name, version in preview.policy_packs.items()),
        outputs=preview.output_changes,
        resources=tuple(sorted(resources, key=lambda each: (each.component, _URGENCY.get(each.op, 4), each.type, each.name))),
        diagnostics=tuple(_diagnostics(preview)),
        graph=graph_of(preview),
        is_preview=preview.is_preview,
        exemptions=guards.in_force if guards else (),
        notes=preview.notes,
        tables=(*figures.tables, *map(table, rehearsed)),
        over_budget=figures.over_budget,
        accelerators=figures.accelerators,
        memory=figures.memory,
        cost=figures.cost,
        cost_change=figures.cost_change,
    )


def counts_text(preview: Preview) -> str:
    """The counts in the CLI's words and order."""
    ordered = sorted(preview.counts.items(), key=lambda item: _OPS.index(item[0]) if item[0] in _OPS else len(_OPS))
    words = [(count, VERBS.get(op, clean(op))) for op, count in ordered]
    if not preview.is_preview:
        words = [(count, DONE.get(verb, verb)) for count, verb in words]
    if preview.failed_operations:
        words.append((preview.failed_operations, "errored"))
    return ", ".join(f"{count} {verb}" for count, verb in words) or "no resources"


def messages_text(stack: StackReport) -> str:
    """How many errors and warnings a run had: "1 error, 2 warnings"."""
    counts = [(sum(severity == word for severity, _, _ in stack.diagnostics), word) for word in ("error", "warning")]
    return f"{', '.join(plural(count, word) for count, word in counts if count)} of the run"


def _origin(preview: Preview) -> str:
    if preview.foreign:
        return "planned by the code of a fork, without credentials: what it says is the word of the pull request itself"
    if preview.planner == "inferplan":
        return (
            "planned by inferplan from the declarations alone, without credentials: what drifted in the cluster or the cloud "
            "is not seen, and what only the provider can tell (a refusal, a computed value) is not known"
        )
    if not preview.is_preview:
        return "updated by the Pulumi CLI"
    if preview.form == "digest":
        return "previewed by the Pulumi CLI against the recorded state; read from the digest, which has no policy results and no unchanged resources"
    return "previewed by the Pulumi CLI against the recorded state of the stack"


def _resource(step: StepSummary, by_urn: dict[str, StepSummary]) -> ResourceChange:
    return ResourceChange(
        op=clean(step.op),
        kind=clean(step.kind),
        type=clean(step.type),
        name=clean(step.name),
        urn=clean(step.urn),
        component=_component(step, by_urn),
        failed=step.failed,
        properties=step.changes,
    )


def _component(step: StepSummary, by_urn: dict[str, StepSummary]) -> str:
    """The component below the stack that `step` belongs to; itself when it is one."""
    seen = {step.urn}
    while (above := by_urn.get(step.parent)) is not None and above.type != STACK_TYPE and above.urn not in seen:
        step = above
        seen.add(step.urn)
    return label_of(step.urn)


def _diagnostics(preview: Preview) -> Iterable[tuple[str, str, str]]:
    """Severity, resource and text, each once; a traceback's lines are put together."""
    said: dict[tuple[str, str, str], None] = {}
    for each in preview.diagnostics:
        if each.severity in ("warning", "error"):
            said[each.severity, label_of(each.urn) if each.urn else "", one_line(clean(each.message))] = None
    return sorted(said, key=lambda item: (item[0] != "error", item[1], item[2]))
