"""The cheapest pool, parallel size, replicas and batch limit that meet an objective, and the next
candidates.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from inferplan.predict.forecast import Forecast, forecast, hourly_price
from inferplan.predict.words import seconds

_SEQUENCES = (256, 128, 64, 32, 16, 8)
_MOST_REPLICAS = 64
HOURS = 730
"""Hours of a month in list prices."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to serve the model: facts of the model on `pool`, and its forecast. `monthly` is None
    without a list price.
    """

    pool: str
    parallel: int
    replicas: int
    sequences: int | None
    nodes: int
    most_nodes: int
    monthly: Decimal | None
    forecast: Forecast

    @property
    def order(self) -> tuple[bool, bool, Decimal, int, float]:
        """Cheapest first; candidates that fit their pool and have a price before the others."""
        speed = self.forecast.speed
        price = Decimal(0) if self.monthly is None else self.monthly
        return (
            self.monthly is None,
            self.nodes > self.most_nodes,
            price,
            self.parallel * self.replicas,
            speed.ttft if speed else math.inf,
        )


Places = Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Pools that a model could run on, by name: the facts of the model there, with the default
batching, and those of the pool.
"""


def candidates(model: str, places: Places) -> tuple[list[Candidate], list[str]]:
    """The candidates that meet the objective, cheapest first, and why a pool or parallel size has
    none.
    """
    matches: list[Candidate] = []
    reasons: list[str] = []
    for name, (facts, pool) in places.items():
        for parallel in (size for size in (1, 2, 4, 8) if size <= int(pool.get("accelerators", 0))):
            best = _smallest(model, facts, name, pool, parallel)
            if isinstance(best, Candidate):
                matches.append(best)
            elif "does not know the layers" in best:
                return [], [best]
            else:
                reasons.append(
                    f"{name}{f', tensorParallelSize {parallel}' if 'objective' in best else ''}:"
                    f" {best}"
                )
    return sorted(matches, key=lambda each: each.order), list(dict.fromkeys(reasons))


def _smallest(
    model: str, facts: Mapping[str, Any], name: str, pool: Mapping[str, Any], parallel: int
) -> Candidate | str:
    """The candidate with the fewest replicas, or the reason if there is none."""

    def made(replicas: int, sequences: int | None = None) -> Forecast:
        limit = {} if sequences is None else {"maxSequences": sequences}
        batching = {**facts["batching"], "tensorParallelSize": parallel, **limit}
        return forecast(
            model,
            {**facts, "batching": batching, "replicas": replicas, "accelerators": parallel},
            pool,
            Path(),
        )

    default = made(1)
    if default.source == "unknown" or default.fatal:
        return default.reason or default.fatal
    least = max(1, math.ceil((default.utilization or 1) * 0.999))
    for replicas in range(least, _MOST_REPLICAS + 1):
        for sequences in (None, *_SEQUENCES):
            best = made(replicas, sequences)
            if _keeps(best) and not best.problems and not best.doubt:
                hourly = hourly_price({"accelerators": parallel}, pool)
                return Candidate(
                    pool=name,
                    parallel=parallel,
                    replicas=replicas,
                    sequences=sequences,
                    nodes=math.ceil(replicas / max(1, int(pool["accelerators"]) // parallel)),
                    most_nodes=int(pool.get("maxNodes", 0)),
                    monthly=None if hourly is None else hourly * HOURS * replicas,
                    forecast=best,
                )
        if not _keeps(made(replicas * 1000)):
            break  # not even the least possible load helps
    speed = made(_MOST_REPLICAS).speed
    times = (
        ""
        if speed is None
        else (
            f": TTFT {seconds(speed.ttft)}, ITL {seconds(speed.itl)} with {_MOST_REPLICAS} replicas"
        )
    )
    return f"no number of replicas meets the objective{times}"


def _keeps(made: Forecast) -> bool:
    limits = made.objective
    return (
        made.speed is not None
        and made.speed.ttft <= (limits.ttft or math.inf)
        and made.speed.itl <= (limits.itl or math.inf)
    )


def gives_up(each: Candidate, best: Candidate) -> Iterator[str]:
    """The disadvantages of a candidate against the best one."""
    if each.monthly is not None and best.monthly is not None and each.monthly > best.monthly:
        yield f"${each.monthly - best.monthly:,.0f} more a month"
    if each.monthly is None:
        yield "no list price"
    if each.nodes > each.most_nodes:
        yield f"needs {each.nodes} nodes, pool {each.pool} has at most {each.most_nodes}"
    for name, title in (("ttft", "TTFT"), ("itl", "ITL")):
        own, others = getattr(each.forecast.speed, name), getattr(best.forecast.speed, name)
        if own > others * 1.05:
            yield f"{title} {seconds(own)} instead of {seconds(others)}"
    if each.replicas < best.replicas == 2:
        yield "no redundancy"
