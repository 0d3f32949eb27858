"""What a person would write to excuse a stack from rules that refuse it. It writes nothing: each exemption is somebody's decision."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from policies.engine.settings import STATES

if TYPE_CHECKING:
    from policies.engine.report import Report

MOST = 10


def drafts(report: Report) -> list[str]:
    """An entry of `exemptions` for each field that is refused, MOST at most, each a line of JSON.

    The pack takes none of them before a day stands under `expires`. A rule that failed by itself gets no draft.
    """
    names = {state: name for name, state in STATES.items()}
    refused = dict.fromkeys(
        (each.rule.id, each.resource, each.path, names[each.state]) for each in report.violations if each.state in names
    )
    blank = {"reason": "why this one may", "owner": "who answers for it", "expires": "YYYY-MM-DD"}
    keys = ("rule", "resource", "path", "state")
    return [json.dumps({**dict(zip(keys, each, strict=True)), **blank}) for each in list(refused)[:MOST]]
