"""The objectives of models as recording rules: the share of bad requests over several windows, from
which burn-rate alerts are made.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inferplan.components.monitoring.slo_spec import SloSpec
from inferplan.components.monitoring.vocabulary import (
    Rule,
    engine_metrics,
    factor_of,
    rule,
    selected,
    sources_of,
    together,
)
from inferplan.kube.durations import milliseconds_of

WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
_LONG_WINDOWS = ("1h", "6h", "1d", "3d")
"""Windows in which a burn-rate alert requires a least number of requests."""


@dataclass(frozen=True, kw_only=True)
class WatchedModel:
    """A model as rules see it; `counted` says that the gateway counts its answers."""

    name: str
    engine: str
    min_replicas: int
    max_replicas: int
    slo: SloSpec | None
    counted: bool


def objectives(model: WatchedModel, namespace: str) -> Iterator[Rule]:
    """Yield the error budget of each objective of `model`, and the share of its requests that
    missed it.
    """
    for slo, budget in _budgets(model.slo).items():
        shares = {window: _share(model, namespace, slo, window) for window in WINDOWS}
        if all(shares.values()):
            labels = {"namespace": namespace, "model": model.name, "slo": slo}
            yield rule("slo_budget", f"vector({budget:g})", **labels)
            yield from (
                rule(f"slo_errors:ratio_rate{window}", share, **labels)
                for window, share in shares.items()
            )
            for window in _LONG_WINDOWS:
                yield rule(
                    f"slo_requests:increase{window}",
                    _requests(model, namespace, slo, window),
                    **labels,
                )


def approximated(model: WatchedModel) -> Iterator[tuple[str, float]]:
    """Yield each objective of `model` that its histogram measures at a longer time, with that time
    in seconds.
    """
    for slo in ("ttft", "itl"):
        if slo in _budgets(model.slo):
            limit = milliseconds_of(getattr(model.slo, slo)) / 1000
            for source in sources_of(f"{slo}_seconds", [model.engine]):
                bound = _bound(source, model.engine, limit)
                if bound is not None and abs(bound / factor_of(source) - limit) > 1e-9 * limit:
                    yield slo, bound / factor_of(source)


def unmeasured(model: WatchedModel) -> list[str]:
    """Return the objectives of `model` that no metric of its engine measures."""
    return [slo for slo in _budgets(model.slo) if not _share(model, "", slo, WINDOWS[0])]


def _budgets(slo: SloSpec | None) -> dict[str, float]:
    if slo is None:
        return {}
    times = {
        name: 1 - slo.percentile / 100 for name in ("ttft", "itl") if getattr(slo, name) is not None
    }
    return (
        times if slo.availability is None else {**times, "availability": 1 - slo.availability / 100}
    )


def _share(model: WatchedModel, namespace: str, slo: str, window: str) -> str:
    where = f'namespace="{namespace}",model="{model.name}"'
    if slo != "availability":
        limit = milliseconds_of(getattr(model.slo, slo)) / 1000
        sources = sources_of(f"{slo}_seconds", [model.engine])
        return " or ".join(
            share
            for each in sources
            if (share := _slow_share(each, model.engine, where, limit, window))
        )
    if model.counted:
        good = 'inferplan_gateway_answers_total{code!="4xx"}'
        return _ratio(
            [selected('inferplan_gateway_answers_total{code="5xx"}', where)],
            [selected(good, where)],
            window,
        )
    errors, requests = (sources_of(term, [model.engine]) for term in ("errors", "requests"))
    return (
        _ratio(
            [selected(each, where) for each in errors],
            [selected(each, where) for each in requests],
            window,
        )
        if errors
        else ""
    )


def _ratio(errors: list[str], requests: list[str], window: str) -> str:
    failed, all_of_them = (
        f"sum({together([f'rate({each}[{window}])' for each in part])})"
        for part in (errors, requests)
    )
    return f"{failed} / ({all_of_them} > 0)"


def _requests(model: WatchedModel, namespace: str, slo: str, window: str) -> str:
    """Return the number of requests from which the shares of an objective are computed."""
    where = f'namespace="{namespace}",model="{model.name}"'
    if slo != "availability":
        sources = [
            selected(each, where, "_count") for each in sources_of(f"{slo}_seconds", [model.engine])
        ]
    elif model.counted:
        sources = [selected('inferplan_gateway_answers_total{code!="4xx"}', where)]
    else:
        sources = [selected(each, where) for each in sources_of("requests", [model.engine])]
    return f"sum({together([f'increase({each}[{window}])' for each in sources])})"


def _bound(source: str, engine: str, limit: float) -> float | None:
    """Return the smallest bound of the histogram that is not below `limit` (seconds): a request
    within `limit` never counts as slow.
    """
    bounds = engine_metrics(engine)["bounds"][source.partition("{")[0]]
    # Bounds and limits are decimal fractions, and their product with 1000 is not exact.
    return min(
        (each for each in bounds if each >= limit * factor_of(source) * (1 - 1e-9)), default=None
    )


def _slow_share(source: str, engine: str, where: str, limit: float, window: str) -> str:
    """Return the share of requests above `limit` (seconds) by the histogram, "" if the histogram
    has no bound that long.
    """
    bound = _bound(source, engine, limit)
    if bound is None:
        return ""
    # Servers write 1 or 1.0, and Prometheus 3 writes 1.0.
    spelling = f"{bound:g}".replace(".", "\\\\.") + ("" if bound % 1 else "(\\\\.0)?")
    within = selected(source, f'{where},le=~"{spelling}"', "_bucket")
    return (
        f"1 - sum(rate({within}[{window}])) /"
        f" (sum(rate({selected(source, where, '_count')}[{window}])) > 0)"
    )
