"""The report as one HTML page: no network, dark and light, filterable. Everything foreign is
escaped by the template engine.
"""

from collections.abc import Sequence

from markupsafe import Markup

from inferplan.documents.templates import template
from inferplan.documents.text import differing_parts
from inferplan.pulumi_engine.reading.changes import PropertyChange
from inferplan.review.reading.graph import tree
from inferplan.review.rendering.picture import pictures
from inferplan.review.report import WEIGHTS, Report
from inferplan.review.steps.kinds import CRITICAL
from inferplan.review.steps.risk import Risk
from inferplan.review.verdict import (
    BLOCKED,
    FAILED,
    ICONS,
    VERBS,
    messages_text,
    plural,
    routine_text,
)

_LONGEST, _FIRST = 1_000, 5
_RANKS = ("incomplete", "blocked", "failed", "risky", "no risk", "no change")
_LEVELS = ("critical", "disruptive", "routine")
_VERBS = {"deleted": "is deleted", "replaced": "is replaced", "created": "is created"}
_ROW = Markup(
    '<tr><td><code>{}</code>{}</td><td class="old"><code>{}</code></td><td'
    ' class="new"><code>{}</code></td></tr>'
)


def render(report: Report) -> str:
    ops = sorted({each.op for stack in report.stacks for each in stack.resources})
    risks = [(stack.title, each) for stack in report.stacks for each in stack.serious]
    risks.sort(key=lambda item: item[1].weight)
    is_critical = report.rank > BLOCKED and any(each.weight == CRITICAL for _, each in risks)
    page = template(
        "review/templates/report.html.j2", autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return page.render(
        first=risks[:_FIRST],
        more=len(risks[_FIRST:]),
        sentence=_sentence,
        tone=f"weight-{CRITICAL}" if is_critical else f"rank-{report.rank}",
        severity=_LEVELS[CRITICAL] if is_critical else _RANKS[report.rank],
        levels=_LEVELS,
        report=report,
        icon=ICONS[report.rank],
        icons=ICONS,
        weights=WEIGHTS,
        verbs=VERBS,
        messages=messages_text,
        routine=routine_text,
        plural=plural,
        ops=ops,
        tree=tree,
        properties=_properties,
        pictures=pictures,
        failed=FAILED,
    )


def _sentence(risk: Risk) -> str:
    """Return who loses what: "batch loses llama-3-8b"."""
    who, calls, _ = risk.what.partition(" can no longer call")
    if calls:
        return f"{who} {'lose' if ' and ' in who else 'loses'} {risk.name}"
    if risk.what.endswith((" for", " of")):
        return f"{risk.what} {risk.name}"
    return risk.what if risk.kind == "stack" else f"{risk.name} {_VERBS.get(risk.what, risk.what)}"


def _properties(changes: Sequence[PropertyChange]) -> Markup:
    if not changes:
        return Markup('<p class="soft">The engine sent no properties.</p>')
    rows = (
        _ROW.format(
            each.path,
            " 🔁" if each.replaces else "",
            *differing_parts(each.old, each.new, _LONGEST),
        )
        for each in changes
    )
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="values"><table><tr><th>property</th><th>old</th><th>new</th></tr>{}</table></div>'
    ).format(Markup("").join(rows))
