"""The load and the objective of a model, from the facts of its stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferplan.kube.durations import milliseconds_of
from inferplan.kube.paths import mapping

if TYPE_CHECKING:
    from inferplan.predict.traces import Trace


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The requests to all replicas, of mean lengths."""

    requests_per_second: float
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Times in seconds that `percentile` percent of the requests keep; None for no limit."""

    ttft: float | None = None
    itl: float | None = None
    percentile: int = 95


def placed(model: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
    """The facts of `model` with the whole path of the config.json that `traffic.model` names below
    `root`.
    """
    fact = mapping(model, "traffic")
    if not str(fact.get("model", "")).endswith("config.json"):
        return model
    return {**model, "traffic": {**fact, "model": str(root / fact["model"])}}


def traffic_of(model: Mapping[str, Any], root: Path) -> tuple[Traffic, Trace | None]:
    """The traffic, and its trace. Of a trace plans judge the mean lengths, and the rate of its
    busiest five minutes.
    """
    fact, trace = mapping(model, "traffic"), None
    if "trace" in fact:
        from inferplan.predict.traces import read_trace

        trace = read_trace(root / fact["trace"], fact["trace"])
        means = {
            "inputTokens": round(trace.prompts.mean()),
            "outputTokens": round(trace.answers.mean()),
        }
        fact = {**fact, **means, "requestsPerSecond": trace.busiest}
    prompt = int(fact["inputTokens"])
    cached = prompt * int(fact.get("sharedPrefixPercent", 0)) // 100
    caches = mapping(model, "batching").get("prefixCaching", True)
    rate, answer = float(fact["requestsPerSecond"]), int(fact["outputTokens"])
    shared = min(cached, prompt - 1) if caches else 0
    return (
        Traffic(
            requests_per_second=rate,
            input_tokens=prompt,
            output_tokens=answer,
            cached_tokens=shared,
        ),
        trace,
    )


def objective_of(model: Mapping[str, Any]) -> Objective:
    fact = mapping(model, "slo")
    times = {name: milliseconds_of(fact[name]) / 1000 for name in ("ttft", "itl") if fact.get(name)}
    return Objective(**times, percentile=int(fact.get("percentile", 95)))
