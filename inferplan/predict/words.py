"""Forecasts in words: tables of plans, and the sentence, the table and the risks of a report."""

import math
from collections.abc import Iterable, Iterator, Sequence

from inferplan.documents.text import clean
from inferplan.predict.forecast import Forecast
from inferplan.review.figures import Table
from inferplan.review.speed import SpeedReview
from inferplan.review.steps.kinds import CRITICAL, DISRUPTIVE
from inferplan.review.steps.risk import Risk

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
    """The figures of one model; times keep the percentile of its objective, tokens per second are
    of the answers of one replica.
    """
    if each.source == "unknown":
        return (each.model, *(_UNKNOWN,) * (len(COLUMNS) - 1))
    memory, speed = each.memory, each.speed
    parts = _UNKNOWN
    if memory is not None:
        left = max(memory.capacity - memory.weights - memory.other, 0)
        parts = (
            f"{_gib(memory.weights)} weights, {_gib(left)} KV cache of {_gib(memory.capacity)} GiB"
        )
    state = "does not fit" if each.fatal else "overloaded"
    times = (state, state) if speed is None else (seconds(speed.ttft), seconds(speed.itl))
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
        yield (
            f"{', '.join(each.model for each in models)}: {models[0].source} by"
            f" {basis}{_error(models[0])}"
        )
    for each in forecasts:
        if each.source == "unknown":
            yield f"speed of {each.model} is unknown: {each.reason}"
        elif each.reason:
            yield f"{each.model}: {each.reason}"
        if each.fatal:
            yield f"{each.model} does not fit: {each.fatal}"
        yield from (f"{each.model}: {problem}" for problem in each.problems)
        yield from (f"{each.model}: {text}" for _, text in _misses(each))


def _error(each: Forecast) -> str:
    if each.band is None:
        return ""
    where = "on this accelerator" if each.band.exact else "on any accelerator"
    return (
        f"; of {each.band.comparisons} published measurements {where}, 80% were within"
        f" {each.band.ttft:.0%} of TTFT and {each.band.itl:.0%} of ITL"
    )


def _time(each: Forecast | None, name: str) -> float:
    """One time of a forecast, infinite for an overloaded replica; NaN if nothing is known or the
    objective does not limit it.
    """
    if (
        each is None
        or each.source == _UNKNOWN
        or each.fatal
        or getattr(each.objective, name) is None
    ):
        return math.nan
    return math.inf if each.speed is None else getattr(each.speed, name)


def _misses(each: Forecast, old: Forecast | None = None) -> Iterator[tuple[str, str]]:
    """The title and the sentence for each time (TTFT, ITL) that misses its objective by more than
    the error band.
    """
    for name, title in (("ttft", "time to first token"), ("itl", "inter-token latency")):
        limit, value = getattr(each.objective, name), _time(each, name)
        if each.traffic is not None and value / (1 + getattr(each.band, name, 0.0)) > (
            limit or 0.0
        ):
            path = " → ".join(
                dict.fromkeys(
                    seconds(side) for side in (_time(old, name), value) if not math.isnan(side)
                )
            )
            rate = f"{each.traffic.requests_per_second:g} requests per second"
            yield (
                title,
                (
                    f"p{each.objective.percentile} {title} {path} at {rate}: the objective of"
                    f" {seconds(limit)} is missed"
                ),
            )


def review(before: Sequence[Forecast], after: Sequence[Forecast]) -> SpeedReview:
    """Return the table and the risks of a change of forecasts. A missed objective is a risk also if
    it was missed before.
    """
    if not (before or after):
        return SpeedReview()
    was = {each.model: each for each in before}
    pairs = [(was.get(each.model), each) for each in after]
    rows = [
        [
            turn(clean(first), clean(cell))
            for first, cell in zip(
                row(old) if old else ("",) * len(COLUMNS), row(each), strict=True
            )
        ]
        for old, each in pairs
    ]
    table = table_of("Speed and capacity", COLUMNS, rows, map(clean, notes(after)))
    return SpeedReview((table,), tuple(risk for old, each in pairs for risk in _risks(old, each)))


def table_of(
    title: str, columns: tuple[str, ...], rows: Iterable[Sequence[str]], texts: Iterable[str] = ()
) -> Table:
    cells = tuple(map(tuple, rows))
    changed = any("→" in cell for each in cells for cell in each)
    return Table(title=title, columns=columns, rows=cells, notes=tuple(texts), changed=changed)


def turn(was: str, will: str) -> str:
    return will if was in ("", will) else f"{was} → {will}"


def _risks(old: Forecast | None, each: Forecast) -> Iterator[Risk]:
    if each.fatal:
        yield risk(each.model, "does not fit", each.fatal, "the servers do not start", CRITICAL)
    for problem in each.problems:
        yield risk(
            each.model,
            "cannot serve its context length",
            problem,
            "the servers do not start, or reject such requests",
            DISRUPTIVE,
        )
    for title, text in _misses(each, old):
        yield risk(
            each.model,
            f"misses its objective of {title}",
            text,
            f"{each.source} by {each.basis}{_error(each)}",
            DISRUPTIVE,
        )
    if each.source == _UNKNOWN and old is not None and old.source != _UNKNOWN:
        yield risk(
            each.model,
            "loses its forecast",
            each.reason,
            "nothing says whether the objective still holds",
            DISRUPTIVE,
        )


def risk(model: str, what: str, cause: str, consequence: str, weight: int) -> Risk:
    name = clean(model)
    return Risk(
        weight=weight,
        what=what,
        kind="model",
        name=name,
        urn=f"model {name}",
        cause=clean(cause),
        consequence=clean(consequence),
    )


def seconds(value: float) -> str:
    """A time as people write it: milliseconds below a second."""
    if math.isinf(value):
        return "without bound"
    return f"{value * 1000:.3g} ms" if value < 0.9995 else f"{value:.3g} s"


def _gib(amount: float) -> str:
    return f"{amount / 2**30:.1f}"
