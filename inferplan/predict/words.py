"""Forecasts in words: the rows and the sentences of a plan."""

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal

from inferplan.predict.forecast import Forecast

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
UNKNOWN = "unknown"


def row(each: Forecast) -> tuple[str, ...]:
    """The figures of one model; times keep the percentile of its objective, tokens per second are
    of the answers of one replica.
    """
    memory, speed = each.memory, each.speed
    parts = UNKNOWN
    if memory is not None:
        left = max(memory.capacity - memory.weights - memory.other, 0)
        parts = (
            f"{_gib(memory.weights)} weights, {_gib(left)} KV cache of {_gib(memory.capacity)} GiB"
        )
    if each.source == "unknown":
        return (each.model, parts, *(UNKNOWN,) * (len(COLUMNS) - 2))
    state = "does not fit" if each.fatal else "may be overloaded" if each.doubt else "overloaded"
    times = (state, state) if speed is None else (seconds(speed.ttft), seconds(speed.itl))
    return (
        each.model,
        parts,
        UNKNOWN if each.sequences is None else f"{each.sequences:,}",
        *times,
        _tokens(each),
        _share(each),
        _dollars(each),
        each.source,
    )


def _share(each: Forecast) -> str:
    if each.utilization is None:
        return UNKNOWN
    band = "" if each.band is None else f" ± {each.utilization * each.band.capacity:.0%}"
    return f"{each.utilization:.0%}{band}"


def _tokens(each: Forecast) -> str:
    if each.tokens_per_second is None:
        return UNKNOWN
    figures = (each.tokens_per_second * each.served, each.tokens_per_second)
    return " to ".join(dict.fromkeys(f"{figure:,.0f}" for figure in figures))


def _dollars(each: Forecast) -> str:
    if each.dollars is None:
        return "no price"
    figures = (each.dollars, each.dollars / Decimal(each.served))
    return " to ".join(dict.fromkeys(f"${figure:,.2f}" for figure in figures))


def notes(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield the source of the figures, what is unknown, and what does not fit or is missed."""
    for basis in dict.fromkeys(each.basis for each in forecasts if each.basis):
        models = [each for each in forecasts if each.basis == basis]
        yield (
            f"{', '.join(each.model for each in models)}: {models[0].source} by"
            f" {basis}{error_of(models[0])}"
        )
    for each in forecasts:
        if each.source == "unknown":
            yield f"speed of {each.model} is unknown: {each.reason}"
        elif each.reason:
            yield f"{each.model}: {each.reason}"
        if each.fatal:
            yield f"{each.model} does not fit: {each.fatal}"
        yield from (f"{each.model}: {text}" for text in (*each.problems, each.doubt) if text)
        yield from (f"{each.model}: {text}" for _, text in misses(each))


def error_of(each: Forecast) -> str:
    if each.band is None:
        return ""
    where = "on this accelerator" if each.band.exact else "on any accelerator"
    source = (
        f"of {each.band.comparisons} published measurements {where}, 90% were within"
        if each.band.comparisons
        else "no published measurement covers such layers, so the errors of others are doubled:"
    )
    return (
        f"; {source} {each.band.percentile_ttft:.0%} for the TTFT percentile,"
        f" {each.band.percentile_itl:.0%} for the ITL one, and {each.band.capacity:.0%} for the"
        " throughput"
    )


def _time(each: Forecast | None, name: str) -> float:
    """One time of a forecast, infinite for an overloaded replica; NaN if nothing is known or the
    objective does not limit it.
    """
    if (
        each is None
        or each.source == UNKNOWN
        or each.fatal
        or getattr(each.objective, name) is None
    ):
        return math.nan
    return math.inf if each.speed is None else getattr(each.speed, name)


def misses(each: Forecast, old: Forecast | None = None) -> Iterator[tuple[str, str]]:
    """The title and the sentence for each time (TTFT, ITL) that misses its objective by more than
    the error band.
    """
    for name, title in (("ttft", "time to first token"), ("itl", "inter-token latency")):
        limit, value = getattr(each.objective, name), _time(each, name)
        error = getattr(each.band, f"percentile_{name}", 0.0)
        if each.traffic is not None and value / (1 + error) > (limit or 0.0):
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


def seconds(value: float) -> str:
    """A time as people write it: milliseconds below a second."""
    if math.isinf(value):
        return "without bound"
    return f"{value * 1000:.3g} ms" if value < 0.9995 else f"{value:.3g} s"


def _gib(amount: float) -> str:
    return f"{amount / 2**30:.1f}"
