"""The Grafana dashboards of a stack, rendered from the table of panels in `dashboards.toml`."""

import json
from collections.abc import Mapping
from typing import Any

from inferplan.components.naming import content_key
from inferplan.tables import table

_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Of Grafana 11; later releases migrate it when they load it.
_SCHEMA = 39


def dashboards(namespace: str) -> dict[str, str]:
    """Return the JSON of each dashboard by the name of its file; the same namespace gives the same bytes."""
    rows = table("components/monitoring/dashboards.toml")
    return {f"inferplan-{name}.json": json.dumps(_dashboard(name, row, namespace), indent=1) + "\n" for name, row in rows.items()}


def queries_of(panel: Mapping[str, Any], namespace: str) -> dict[str, str]:
    """Return the queries of a panel of the table by their legends."""
    return {legend: _placed(query, namespace) for legend, query in panel["queries"].items()}


def _placed(query: str, namespace: str) -> str:
    return query.replace("WHERE", f'namespace="{namespace}"')


def _dashboard(name: str, row: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "uid": f"inferplan-{content_key(namespace, name)}",
        "title": f"{row['title']} ({namespace})",
        "tags": ["inferplan", namespace],
        "schemaVersion": _SCHEMA,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, *(_variable(key, _placed(query, namespace)) for key, query in row.get("variables", {}).items())]},
        "panels": [_panel(number, panel, namespace) for number, panel in enumerate(row["panels"])],
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {"name": name, "type": "query", "datasource": _SOURCE, "query": query, "refresh": 2, "sort": 1}


def _panel(number: int, panel: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
        for index, (legend, query) in enumerate(queries_of(panel, namespace).items())
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel["title"],
        "description": f"Needs {panel['needs']}." if "needs" in panel else "",
        "datasource": _SOURCE,
        "gridPos": {"x": number % _COLUMNS * _WIDTH, "y": number // _COLUMNS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel["unit"], "min": 0}, "overrides": []},
        "targets": targets,
    }
