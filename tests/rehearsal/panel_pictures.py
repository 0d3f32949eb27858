"""Pictures of dashboards, drawn from what a Prometheus answers to the queries of their panels. No
Grafana draws them.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from inferplan.components.monitoring.dashboards import dashboards

_WIDTH, _HEIGHT, _COLUMNS, _GAP = 400, 190, 2, 12
_LEFT, _TOP, _BOTTOM = 46, 34, 34
_COLORS = ("#3274d9", "#e0752d", "#37872d", "#a352cc", "#c4162a")
_UNITS = {"s": " s", "percentunit": "", "reqps": "/s"}
_STEP = 15


@dataclass(frozen=True)
class Drawn:
    """One panel with the points of each line, by its legend; times in seconds."""

    title: str
    unit: str
    lines: dict[str, list[tuple[float, float]]]


def drawn(
    address: str, dashboard: str, namespace: str, chosen: dict[str, str], begin: float, end: float
) -> list[Drawn]:
    """The panels of `dashboard` with their data between `begin` and `end`, seconds since 1970, and
    `chosen` values of its variables.
    """
    document = json.loads(dashboards(namespace)[f"inferplan-{dashboard}.json"])
    return [_panel(address, panel, chosen, begin, end) for panel in document["panels"]]


def _panel(
    address: str, panel: dict[str, Any], chosen: dict[str, str], begin: float, end: float
) -> Drawn:
    lines: dict[str, list[tuple[float, float]]] = {}
    for target in panel["targets"]:
        query = target["expr"]
        for name, value in chosen.items():
            query = query.replace(f"${name}", value)
        options = urllib.parse.urlencode(
            {"query": query, "start": f"{begin:.0f}", "end": f"{end:.0f}", "step": _STEP}
        )
        with urllib.request.urlopen(f"{address}/api/v1/query_range?{options}", timeout=30) as reply:  # noqa: S310 - a server of the test
            series = json.load(reply)["data"]["result"]
        for each in series:
            legend = target["legendFormat"]
            for name, value in each["metric"].items():
                legend = legend.replace(f"{{{{{name}}}}}", value)
            points = [
                (float(at) - begin, float(value)) for at, value in each["values"] if value != "NaN"
            ]
            if points:
                lines[legend] = points
    return Drawn(panel["title"], panel["fieldConfig"]["defaults"]["unit"], lines)


def picture(title: str, panels: list[Drawn], seconds: float) -> str:
    """An SVG of `panels` in two columns, over `seconds`."""
    rows = -(-len(panels) // _COLUMNS)
    width, height = _COLUMNS * (_WIDTH + _GAP) + _GAP, rows * (_HEIGHT + _GAP) + _GAP + 24
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            ' font-family="sans-serif" font-size="11">'
        ),
        (
            f'<rect width="{width}" height="{height}" fill="#f4f5f5"/><text x="{_GAP}" y="22"'
            f' font-size="15">{escape(title)}</text>'
        ),
    ]
    for index, panel in enumerate(panels):
        x, y = _GAP + index % _COLUMNS * (_WIDTH + _GAP), 32 + index // _COLUMNS * (_HEIGHT + _GAP)
        parts.append(
            f'<g transform="translate({x},{y})"><rect width="{_WIDTH}" height="{_HEIGHT}" rx="3"'
            f' fill="#fff"/>{_chart(panel, seconds)}</g>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _chart(panel: Drawn, seconds: float) -> str:
    top = max((value for points in panel.lines.values() for _, value in points), default=0) or 1.0
    across, down = _WIDTH - _LEFT - 10, _HEIGHT - _TOP - _BOTTOM
    unit = _UNITS.get(panel.unit, "")
    parts = [f'<text x="10" y="18" font-weight="bold">{escape(panel.title)}</text>']
    for share in (0, 0.5, 1):
        at = _TOP + down * (1 - share)
        label = f"{top * share:.0%}" if panel.unit == "percentunit" else f"{top * share:.3g}{unit}"
        parts.append(
            f'<path d="M{_LEFT} {at:.0f}h{across}" stroke="#ddd"/><text x="{_LEFT - 4}"'
            f' y="{at + 4:.0f}" text-anchor="end">{label}</text>'
        )
    for index, (legend, points) in enumerate(panel.lines.items()):
        color = _COLORS[index % len(_COLORS)]
        path = " ".join(
            f"{_LEFT + across * at / seconds:.1f},{_TOP + down * (1 - value / top):.1f}"
            for at, value in points
        )
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts.append(
            f'<text x="{_LEFT + index * 110}" y="{_HEIGHT - 6}"'
            f' fill="{color}">{escape(legend)}</text>'
        )
    parts.append(
        f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 20}" text-anchor="end"'
        f' fill="#777">{seconds / 60:.0f} min</text>'
    )
    return "".join(parts)
