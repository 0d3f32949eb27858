"""Joins the gateway's access log with the usage logs of model servers, by request id.

An access line has consumer and model, a line of a server has tokens, times and the adapter. A
request may have several lines of servers: one for each prompt, and one for each of its `n` answers.
"""

import datetime as dt
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferplan.stackfile.stack import StackSettings

# The id that the gateway gives a request (gateway/payload/prepare.sh, nginx.conf.j2). Engines put
# words in front of it, and numbers of prompts behind it.
_REQUEST_ID = re.compile(r"[0-9a-f]{16}-[0-9]+-[0-9]+")
_OURS = '"requestId":"'
Line = tuple[str, str]
"""The place of a line, for messages, and its text."""


@dataclass
class Row:
    """The usage of one consumer, model and adapter. `usd` is None without a price."""

    consumer: str
    model: str
    adapter: str
    requests: int = 0
    rejected: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    accelerator_seconds: float = 0.0
    usd: float | None = None


@dataclass
class Unjoined:
    """Lines that belong to no row, or whose row lacks their tokens, each with its place or id."""

    unreadable: list[str] = field(default_factory=list)
    answered_without_record: dict[str, list[str]] = field(default_factory=dict)
    left_before_an_answer: list[str] = field(default_factory=list)
    records_without_request: list[str] = field(default_factory=list)
    tokens_without_request: int = 0
    repeated: int = 0
    outside_the_month: int = 0


@dataclass(frozen=True)
class Usage:
    rows: tuple[Row, ...]
    unjoined: Unjoined
    first: str
    last: str
    access_lines: int
    records: int


@dataclass(slots=True)
class _Call:
    consumer: str
    model: str
    status: int
    answered: bool
    end: dt.datetime
    joined: bool = False
    adapter: str = ""


@dataclass(frozen=True, slots=True)
class _Record:
    request: str
    prompt: str
    server: str
    adapter: str
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    start: float
    end: float


def usage_of(settings: StackSettings, lines: Iterable[Line], month: str | None) -> Usage:
    """Return the usage in `month`, such as 2026-11, by UTC; None for all lines."""
    unjoined = Unjoined()
    calls: dict[str, tuple[_Call, ...]] = {}
    records: dict[_Record, str] = {}
    for place, text in lines:
        if _OURS not in text:
            continue
        try:
            line = json.loads(text[text.index("{") : text.rindex("}") + 1])
            if "usage" in line:
                record = _record(line)
                unjoined.repeated += record in records
                records[record] = place
            else:
                call, others = _call(line), calls.get(line["requestId"], ())
                unjoined.repeated += call in others
                calls[line["requestId"]] = others if call in others else (*others, call)
        except (ValueError, KeyError, TypeError, AttributeError):
            unjoined.unreadable.append(place)
    rows = _rows(calls, records, unjoined, month or "")
    for row in rows:
        _price(settings, row)
    ends = [call.end for own in calls.values() for call in own]
    first, last = (f"{end:%Y-%m-%d %H:%M}" for end in (min(ends), max(ends))) if ends else ("", "")
    return Usage(tuple(rows), unjoined, first, last, len(ends), len(records))


def _record(line: Mapping[str, Any]) -> _Record:
    match = _REQUEST_ID.search(line["requestId"])
    return _Record(
        "" if match is None else match[0],
        line["requestId"],
        line["server"],
        line["adapter"],
        int(line["tokensIn"]),
        int(line["tokensCached"]),
        int(line["tokensOut"]),
        float(line["start"]),
        float(line["end"]),
    )


def _call(line: Mapping[str, Any]) -> _Call:
    return _Call(
        str(line["consumer"]),
        str(line["model"]),
        int(line["status"]),
        line["method"] == "POST" and str(line["upstreamStatus"]).endswith("200"),
        dt.datetime.fromisoformat(line["time"]).astimezone(dt.UTC),
    )


def _shares(records: Iterable[_Record]) -> Iterator[tuple[_Record, float]]:
    """Yield each record with the seconds of its server that it used: the time in which a server ran
    several is divided among them equally.
    """
    by_server: dict[str, list[_Record]] = defaultdict(list)
    for record in records:
        by_server[record.server].append(record)
    for own in by_server.values():
        moments = sorted([(each.start, 1) for each in own] + [(each.end, -1) for each in own])
        shares, total, running, last = {}, 0.0, 0, moments[0][0]
        for moment, change in moments:
            if running:
                total += (moment - last) / running
            shares[moment] = total
            running, last = running + change, moment
        yield from ((each, shares[each.end] - shares[each.start]) for each in own)


def _rows(
    calls: Mapping[str, tuple[_Call, ...]],
    records: Mapping[_Record, str],
    unjoined: Unjoined,
    month: str,
) -> list[Row]:
    rows: dict[tuple[str, str, str], Row] = {}
    prompts: set[tuple[str, str, dt.datetime]] = set()
    for record, seconds in _shares(records):
        own = calls.get(record.request, ())
        # A container of the gateway that restarts gives its ids again.
        call = min(own, key=lambda each: abs(each.end.timestamp() - record.end), default=None)
        if call is None:
            if _is_in(month, dt.datetime.fromtimestamp(record.end, dt.UTC)):
                unjoined.records_without_request.append(records[record])
                unjoined.tokens_without_request += record.tokens_in + record.tokens_out
            continue
        call.joined, call.adapter = True, record.adapter
        if not _is_in(month, call.end):
            continue
        row = _row(rows, call)
        # The n answers to one prompt share it.
        prompt = (record.prompt, record.server, call.end)
        if record.tokens_in and prompt not in prompts:
            prompts.add(prompt)
            row.tokens_in += record.tokens_in
            row.tokens_cached += record.tokens_cached
        row.tokens_out += record.tokens_out
        row.accelerator_seconds += seconds
    for request, call in ((name, each) for name, own in calls.items() for each in own):
        if not _is_in(month, call.end):
            unjoined.outside_the_month += 1
            continue
        row = _row(rows, call)
        row.requests += 1
        row.rejected += call.status >= 400 and call.status != 499
        if not call.joined and call.answered:
            unjoined.answered_without_record.setdefault(call.model, []).append(request)
        elif not call.joined and call.status in (0, 499):
            unjoined.left_before_an_answer.append(request)
    return [rows[key] for key in sorted(rows)]


def _is_in(month: str, moment: dt.datetime) -> bool:
    return f"{moment:%Y-%m}".startswith(month)


def _row(rows: dict[tuple[str, str, str], Row], call: _Call) -> Row:
    names = (call.consumer, call.model, call.adapter)
    return rows.setdefault(names, Row(*names))


def _price(settings: StackSettings, row: Row) -> None:
    """Turn the seconds of servers into those of accelerators, with their cost at list price."""
    model = settings.models.get(row.model)
    if model is None:
        return
    pool = settings.node_pools[model.pool]
    if not pool.capacity.accelerators:
        row.accelerator_seconds = 0.0
        return
    row.accelerator_seconds *= model.accelerators_per_pod * model.pods
    if (price := settings.cluster.node_usd_per_hour(pool)) is not None:
        row.usd = row.accelerator_seconds * price / pool.capacity.accelerators / 3600


def totals(rows: Iterable[Row]) -> Iterator[tuple[str, float]]:
    """Yield the sum of each figure of the rows; that of the cost leaves out rows without a price."""
    listed = list(rows)
    for name in list(Row.__dataclass_fields__)[3:]:
        yield name, sum(getattr(row, name) or 0 for row in listed)
