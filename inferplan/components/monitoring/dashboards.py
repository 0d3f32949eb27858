"""The Grafana dashboards of a stack, rendered from the table of panels in `dashboards.toml`."""

import json

from inferplan.components.naming import content_key
from inferplan.documents.templates import template
from inferplan.tables import table


def dashboards(namespace: str) -> dict[str, str]:
    """Return the JSON of each dashboard by the name of its file; the same namespace gives the same
    bytes.
    """
    sheet = template("components/monitoring/dashboard.json.j2", filters=(("json", json.dumps),))
    made: dict[str, str] = {}
    for name, row in table("components/monitoring/dashboards.toml").items():
        text = sheet.render(
            row=row, namespace=namespace, uid=f"inferplan-{content_key(namespace, name)}"
        )
        made[f"inferplan-{name}.json"] = json.dumps(json.loads(text), indent=1) + "\n"
    return made
