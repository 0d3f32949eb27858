"""Resources of many providers (`held_out.json`), written after the tables: `V` is where people put
a secret.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

RESOURCES: list[tuple[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text()
)


def filled(value: Any, secret: str) -> Any:
    """`value` with `secret` in place of each `V`, escaped in JSON."""
    if isinstance(value, str):
        if value[:1] in ("[", "{"):
            with contextlib.suppress(ValueError):
                return json.dumps(filled(json.loads(value), secret))
        return re.sub(r"(?<![A-Za-z])V(?![A-Za-z])", lambda _: secret, value)
    if isinstance(value, dict):
        return {key: filled(each, secret) for key, each in value.items()}
    return [filled(each, secret) for each in value] if isinstance(value, list) else value
