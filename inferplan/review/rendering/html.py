"""The report as one HTML page: no network, dark and light, filterable. Everything foreign is escaped by the template engine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from inferplan.review.reading.changes import PropertyChange
from inferplan.review.rendering.graph import tree
from inferplan.review.rendering.text import differing_parts
from inferplan.review.report import WEIGHTS, Report
from inferplan.review.verdict import FAILED, ICONS, VERBS, messages_text, plural, routine_text

_LONGEST = 1_000
_ROW = Markup('<tr><td><code>{}</code>{}</td><td class="old"><code>{}</code></td><td class="new"><code>{}</code></td></tr>')


def render(report: Report) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("inferplan.review").joinpath("templates/report.html.j2").read_text(encoding="utf-8"))
    ops = sorted({each.op for stack in report.stacks for each in stack.resources})
    return template.render(
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
        failed=FAILED,
    )


def _properties(changes: Sequence[PropertyChange]) -> Markup:
    if not changes:
        return Markup('<p class="soft">The engine sent no properties.</p>')
    rows = (_ROW.format(each.path, " 🔁" if each.replaces else "", *differing_parts(each.old, each.new, _LONGEST)) for each in changes)
    return Markup('<div class="scroll"><table><tr><th>property</th><th>old</th><th>new</th></tr>{}</table></div>').format(
        Markup("").join(rows)
    )
