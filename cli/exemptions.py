"""What a person would write to excuse a stack from rules that refuse it. It writes nothing: each exemption is somebody's decision."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.engine.report import Report

MOST = 10


def drafts(report: Report) -> list[str]:
    """An entry of `exemptions` for each rule and resource that is refused, MOST at most, each a line of JSON.

    The pack takes none of them before a day stands under `expires`.
    """
    refused = dict.fromkeys((outcome.rule.id, outcome.resource) for outcome in report.refusals)
    blank = {"reason": "why this one may", "owner": "who answers for it", "expires": "YYYY-MM-DD"}
    lines = [json.dumps({"rule": rule, "resource": resource, **blank}) for rule, resource in refused]
    return lines[:MOST]
