"""Forecasts in words: tables of plans, and the sentence, the table and the risks of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inferplan.predict.forecast import Forecast
from inferplan.review.capacity.figures import Table
from inferplan.review.rendering.text import clean
from inferplan.review.risks.kinds import CRITICAL, DISRUPTIVE
from inferplan.review.risks.risk import Risk
from inferplan.review.speed import SpeedReview

if TYPE_CHECKING:
    from inferplan.predict.incidents import Incident
    from inferplan.predict.simulation import Outcome

COLUMNS = (
    "model",
    "memory for each accelerator",
    "requests at once",
    "TTFT",
    "ITL",
    "tokens/s",
    "utilization",
    "$ per 1M tokens",
    "source",
)
_UNKNOWN = "unknown"


def row(each: Forecast) -> tuple[str, ...]:
    """The figures of one model; times keep the percentile of its objective, tokens per second are of the answers of one replica."""
    if each.source == "unknown":
        return (each.model, *(_UNKNOWN,) * (len(COLUMNS) - 1))
    memory, speed = each.memory, each.speed
    parts = _UNKNOWN
    if memory is not None:
        left = max(memory.capacity - memory.weights - memory.other, 0)
        parts = f"{_gib(memory.weights)} weights, {_gib(left)} KV cache of {_gib(memory.capacity)} GiB"
    state = "does not fit" if each.fatal else "overloaded"
    times = (state, state) if each.fatal or speed is None else (seconds(speed.ttft), seconds(speed.itl))
    return (
        each.model,
        parts,
        _UNKNOWN if each.sequences is None else f"{each.sequences:,}",
        *times,
        _UNKNOWN if each.tokens_per_second is None else f"{each.tokens_per_second:,.0f}",
        _UNKNOWN if each.utilization is None else f"{each.utilization:.0%}",
        "no price" if each.dollars is None else f"${each.dollars:,.2f}",
        each.source,
    )


def notes(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield the source of the figures, what is unknown, and what does not fit or is missed."""
    for basis in dict.fromkeys(each.basis for each in forecasts if each.basis):
        models = [each for each in forecasts if each.basis == basis]
        yield f"{', '.join(each.model for each in models)}: {models[0].source} by {basis}{_error(models[0])}"
    for each in forecasts:
        if each.source == "unknown":
            yield f"speed of {each.model} is unknown: {each.reason}"
        elif each.reason:
            yield f"{each.model}: {each.reason}"
        if each.fatal:
            yield f"{each.model} does not fit: {each.fatal}"
        yield from (f"{each.model}: {problem}" for problem in each.problems)
        yield from (text for text, _ in misses(each))


def _error(each: Forecast) -> str:
    if each.band is None:
        return ""
    where = "on this accelerator" if each.band.exact else "on any accelerator"
    return f"; of {each.band.comparisons} published measurements {where}, 80% were within {each.band.ttft:.0%} of TTFT and {each.band.itl:.0%} of ITL"


@dataclass(frozen=True)
class Verdict:
    """The state of one time of the objective. Within the band of the error it is neither kept nor missed."""

    name: str
    value: float | None
    limit: float
    state: str


def verdicts(each: Forecast) -> Iterator[Verdict]:
    for name, title in (("ttft", "time to first token"), ("itl", "inter-token latency")):
        limit = getattr(each.objective, name)
        if limit is None or each.source == _UNKNOWN or each.fatal:
            continue
        value = None if each.speed is None else getattr(each.speed, name)
        width = 0.0 if each.band is None else getattr(each.band, name)
        missed = value is None or value / (1 + width) > limit
        kept = value is not None and value * (1 + width) <= limit
        yield Verdict(title, value, limit, "missed" if missed else "kept" if kept else "within the error")


def misses(each: Forecast) -> Iterator[tuple[str, Verdict]]:
    for verdict in verdicts(each):
        if verdict.state == "missed":
            value = "without bound" if verdict.value is None else seconds(verdict.value)
            yield f"{each.model}: p{each.objective.percentile} {verdict.name} {value}{_at(each)}: {_missed(verdict)}", verdict


def _at(each: Forecast) -> str:
    return "" if each.traffic is None else f" at {each.traffic.requests_per_second:g} requests per second"


def _missed(verdict: Verdict) -> str:
    return f"the objective of {seconds(verdict.limit)} is missed"


def review(before: Sequence[Forecast], after: Sequence[Forecast]) -> SpeedReview:
    """Return the table and the risks of a change of forecasts. A missed objective is a risk also if it was missed before."""
    if not (before or after):
        return SpeedReview()
    was = {each.model: each for each in before}
    rows = [tuple(map(_turn, _cells(was.get(each.model)), map(clean, row(each)))) for each in after]
    changed = any("→" in cell for cells in rows for cell in cells)
    texts = tuple(clean(each) for each in notes(after))
    table = Table(title="Speed and capacity", columns=COLUMNS, rows=tuple(rows), notes=texts, changed=changed)
    return SpeedReview((table,), tuple(_risks(was, after)))


def _cells(each: Forecast | None) -> tuple[str, ...]:
    return ("",) * len(COLUMNS) if each is None else tuple(map(clean, row(each)))


def _turn(was: str, will: str) -> str:
    return will if was in ("", will) else f"{was} → {will}"


def _risks(was: Mapping[str, Forecast], after: Sequence[Forecast]) -> Iterator[Risk]:
    for each in after:
        old = was.get(each.model)
        if each.fatal:
            yield _risk(each, "does not fit", each.fatal, "the servers do not start", CRITICAL)
        for problem in each.problems:
            yield _risk(each, "cannot serve its context length", problem, "the servers do not start, or reject such requests", DISRUPTIVE)
        earlier = {} if old is None else {verdict.name: verdict for verdict in verdicts(old)}
        for verdict in verdicts(each):
            first = earlier.get(verdict.name)
            values = ["without bound" if side.value is None else seconds(side.value) for side in (first, verdict) if side is not None]
            path = " → ".join(dict.fromkeys(values))
            if verdict.state == "missed":
                cause = f"p{each.objective.percentile} {verdict.name} {path}{_at(each)}: {_missed(verdict)}"
                yield _risk(
                    each, f"misses its objective of {verdict.name}", cause, f"{each.source} by {each.basis}{_error(each)}", DISRUPTIVE
                )
        if each.source == _UNKNOWN and old is not None and old.source != _UNKNOWN:
            yield _risk(each, "loses its forecast", each.reason, "nothing says whether the objective still holds", DISRUPTIVE)


def _risk(each: Forecast, what: str, cause: str, consequence: str, weight: int) -> Risk:
    name = clean(each.model)
    return Risk(weight=weight, what=what, kind="model", name=name, urn=f"model {name}", cause=clean(cause), consequence=clean(consequence))


def with_incidents(reviewed: SpeedReview, played: Iterable[tuple[Incident, Outcome | str, Outcome | str]]) -> SpeedReview:
    """`reviewed` with the incidents that were played before and after the change; a broken limit is a risk."""
    rows, risks = [], list(reviewed.risks)
    for incident, before, after in played:
        sides = [("", each) if isinstance(each, str) else (f"{each.lost:,}", f"{each.late_percent:.1f}%") for each in (before, after)]
        rows.append(
            (clean(incident.name), clean(incident.model), *(_turn(clean(was), clean(will)) for was, will in zip(*sides, strict=True)))
        )
        if isinstance(after, str) or not (cause := incident.broken(after)):
            continue
        name = clean(incident.model)
        consequence = "the incident that this file repeats would hurt users again"
        texts = {"what": f"does not survive incident {clean(incident.name)}", "cause": clean(cause), "consequence": consequence}
        risks.append(Risk(weight=DISRUPTIVE, kind="model", name=name, urn=f"model {name}", **texts))
    changed = any("→" in cell for cells in rows for cell in cells)
    table = Table(title="Incidents", columns=("incident", "model", "requests lost", "requests late"), rows=tuple(rows), changed=changed)
    return SpeedReview((*reviewed.tables, table), tuple(risks))


def seconds(value: float) -> str:
    """A time as people write it: milliseconds below a second."""
    return f"{value * 1000:.3g} ms" if value < 0.9995 else f"{value:.3g} s"


def _gib(amount: float) -> str:
    return f"{amount / 2**30:.1f}"
