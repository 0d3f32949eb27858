"""The report as JSON, for programs: the same bytes for the same report."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

from review.report import Report

FORMAT = "inferplan-report/2"


def render(report: Report) -> str:
    """`report` as an indented JSON document; amounts of money are strings, so that nothing rounds them."""
    document = {"format": FORMAT, **_fields(report)}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return str(value)
    if is_dataclass(value):
        return _fields(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def _fields(record: Any) -> dict[str, Any]:
    # Not asdict, which copies the whole report before the first byte is written.
    return {field.name: getattr(record, field.name) for field in fields(record)}
