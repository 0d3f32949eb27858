"""The report as JSON, for whoever wants to decide by machine: the same bytes for the same report."""

from __future__ import annotations

import json
from dataclasses import asdict
from decimal import Decimal

from review.report import Report

FORMAT = "inferplan-report/1"


def render(report: Report) -> str:
    """`report` as an indented JSON document; amounts of money are strings, so that nothing rounds them."""
    document = {"format": FORMAT, **asdict(report)}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in a report")
