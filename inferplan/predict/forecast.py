"""The forecast of one model from the facts of its stack: memory, speed, utilization and price, each with its source or a reason."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from inferplan.kube.facts import Subjects
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import milliseconds_of
from inferplan.predict.batches import Replica, Speed
from inferplan.predict.library import MEASURE, Band, Kernels, Memory, Setup, UnknownSpeedError, band_of, kernels
from inferplan.predict.profiles import differences, key_of, load, measured
from inferplan.review.cost.prices import price_list

Source = Literal["predicted", "measured", "unknown"]


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


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The figures of one model under its traffic. `speed` is None if nothing is known or if the replicas cannot serve it.

    `problems` are weights that do not fit and prompts that cannot be served; `reason` says why figures are missing, and what to do.
    `dollars` are for a million tokens, of prompts and answers together, at the traffic of the file.
    """

    model: str
    pool: str
    replicas: int
    source: Source
    basis: str = ""
    reason: str = ""
    traffic: Traffic | None = None
    objective: Objective = field(default_factory=Objective)
    memory: Memory | None = None
    sequences: int | None = None
    speed: Speed | None = None
    utilization: float | None = None
    tokens_per_second: float | None = None
    dollars: Decimal | None = None
    band: Band | None = None
    fatal: str = ""
    problems: tuple[str, ...] = ()


def forecasts(subjects: Subjects, profiles: Mapping[str, Path] | None = None) -> list[Forecast]:
    """The forecasts of all models with traffic. `profiles` are the files of measured profiles, by model."""
    return [
        forecast(name, facts, subjects.get(("pool", facts.get("pool", "")), {}), (profiles or {}).get(name))
        for (kind, name), facts in sorted(subjects.items())
        if kind == "model" and facts.get("traffic")
    ]


def forecast(name: str, model: Mapping[str, Any], pool: Mapping[str, Any], profile: Path | None = None) -> Forecast:
    """The forecast of the model `name` with the facts `model`, on a pool with the facts `pool`, by its `profile` if that still matches."""
    common = {"model": name, "pool": str(model["pool"]), "replicas": model.get("replicas", 0), "objective": objective_of(model)}
    stale = ""
    try:
        traffic = traffic_of(model)
        if profile is not None:
            try:
                return _measured(model, pool, traffic, profile, common)
            except UnknownSpeedError as error:
                stale = f"{error}. "
        steps = kernels_of(model, pool)
        replica = replica_of(model, steps, traffic)
        made = _predicted(model, pool, traffic, steps, replica, common)
        return replace(made, reason=f"{stale}The figures are predicted") if stale else made
    except UnknownSpeedError as error:
        return Forecast(**common, source="unknown", reason=f"{stale}{error}")


def _measured(model: Mapping[str, Any], pool: Mapping[str, Any], traffic: Traffic, path: Path, common: Mapping[str, Any]) -> Forecast:
    """The forecast by a profile. Raises UnknownSpeedError if it is not of this image, these options, hardware and lengths."""
    profile = load(path, f"{path.parent.parent.name}/{path.parent.name}/{path.name}")
    if changed := list(differences(profile, key_of(model, pool))):
        raise UnknownSpeedError(
            f"{profile.path} was measured with {', '.join(changed)}", "Repeat the benchmark and keep its result, or remove the profile"
        )
    curve = measured(profile, traffic.input_tokens, traffic.output_tokens, common["objective"].percentile)
    replicas = max(1, common["replicas"])
    rate = traffic.requests_per_second / replicas
    return Forecast(
        **common,
        source="measured",
        basis=f"benchmark {profile.job} ({profile.path})",
        traffic=traffic,
        speed=curve.at(rate),
        utilization=rate / curve.capacity,
        tokens_per_second=min(rate, curve.capacity) * traffic.output_tokens,
        dollars=_dollars(model, pool, replicas, traffic, rate / curve.capacity),
    )


def traffic_of(model: Mapping[str, Any]) -> Traffic:
    fact = mapping(model, "traffic")
    if "problem" in fact:
        raise UnknownSpeedError(str(fact["problem"]), "Plans and reports cannot say more")
    prompt = int(fact["inputTokens"])
    cached = prompt * int(fact.get("sharedPrefixPercent", 0)) // 100
    caches = mapping(model, "batching").get("prefixCaching", True)
    return Traffic(
        requests_per_second=float(fact["requestsPerSecond"]),
        input_tokens=prompt,
        output_tokens=int(fact["outputTokens"]),
        cached_tokens=min(cached, prompt - 1) if caches else 0,
    )


def objective_of(model: Mapping[str, Any]) -> Objective:
    fact = mapping(model, "slo")
    times = {name: milliseconds_of(fact[name]) / 1000 for name in ("ttft", "itl") if fact.get(name)}
    return Objective(**times, percentile=int(fact.get("percentile", 95)))


def setup_of(model: Mapping[str, Any], pool: Mapping[str, Any]) -> Setup:
    """The replica in the library's terms. Raises UnknownSpeedError for an engine that it has not measured."""
    batching = mapping(model, "batching")
    if "framework" not in batching:
        raise UnknownSpeedError(f"nothing predicts models of engine {model.get('engine')} on {pool.get('accelerator') or 'CPUs'}", MEASURE)
    if str(pool.get("resource", "")).partition("/")[2].startswith("mig-"):
        raise UnknownSpeedError(f"nothing predicts slices of {pool.get('accelerator')}", MEASURE)
    weights = mapping(model, "weights")
    return Setup(
        model=str(mapping(model, "traffic").get("model") or weights.get("path", "")),
        accelerator=str(pool.get("accelerator") or "CPUs"),
        framework=batching["framework"],
        tensor_parallel_size=batching["tensorParallelSize"],
        pipeline_parallel_size=batching["pipelineParallelSize"],
        quantization=batching.get("quantization"),
        cache_type=batching.get("cacheType"),
    )


def kernels_of(model: Mapping[str, Any], pool: Mapping[str, Any]) -> Kernels:
    return kernels(setup_of(model, pool))


def replica_of(model: Mapping[str, Any], steps: Kernels, traffic: Traffic) -> tuple[Replica, Memory, int]:
    """The replica, its memory, and how many requests of this traffic fit its KV cache."""
    batching = mapping(model, "batching")
    memory = steps.memory(batching["maxTokensPerStep"])
    resident = memory.weights + memory.other
    share = batching["memoryShare"]
    room = (memory.capacity - resident) * share if batching.get("ofFree") else memory.capacity * share - resident
    tokens = int(room // memory.per_token)
    own = traffic.input_tokens - traffic.cached_tokens + traffic.output_tokens // 2
    fitting = max(0, (tokens - traffic.cached_tokens) // max(own, 1)) if tokens > 0 else 0
    slots = max(1, min(fitting, batching["maxSequences"]))
    answer = traffic.output_tokens
    limits = {"slots": slots, "tokens_per_step": batching["maxTokensPerStep"]}
    return Replica(steps=steps, prompt=traffic.input_tokens, cached=traffic.cached_tokens, answer=answer, **limits), memory, tokens


def _predicted(
    model: Mapping[str, Any],
    pool: Mapping[str, Any],
    traffic: Traffic,
    steps: Kernels,
    parts: tuple[Replica, Memory, int],
    common: Mapping[str, Any],
) -> Forecast:
    replica, memory, tokens = parts
    context = mapping(model, "batching").get("contextLength")
    longest = traffic.input_tokens + traffic.output_tokens
    common = {**common, "source": "predicted", "basis": steps.basis, "traffic": traffic, "memory": memory}
    if tokens <= 0:
        fatal = f"the weights take {_gib(memory.weights)} of the {_gib(memory.capacity)} of an accelerator, which leaves no KV cache"
        return Forecast(**common, sequences=0, fatal=f"{fatal}. Raise tensorParallelSize, use a larger accelerator, or quantized weights")
    problems = []
    if context is not None and context > tokens:
        problems.append(f"contextLength {context:,} is more than the {tokens:,} tokens that the KV cache holds: the engine does not start")
    if longest > min(context or longest, tokens):
        problems.append(f"a request of {longest:,} tokens does not fit: prompts and answers may have {min(context or tokens, tokens):,}")
    replicas = max(1, common["replicas"])
    rate = traffic.requests_per_second / replicas
    speed = replica.at(rate, common["objective"].percentile)
    utilization = rate / replica.capacity
    return Forecast(
        **common,
        sequences=replica.slots,
        speed=speed,
        utilization=utilization,
        tokens_per_second=min(rate, replica.capacity) * traffic.output_tokens,
        dollars=_dollars(model, pool, replicas, traffic, utilization),
        band=band_of(steps.framework, steps.system),
        problems=tuple(problems),
    )


def hourly_price(model: Mapping[str, Any], pool: Mapping[str, Any]) -> Decimal | None:
    """The list price of the accelerators of one replica for an hour; None if the price table has no such machine."""
    machines: Sequence[str] = pool.get("machines", ())
    listed = [price_list().machines.get(each) for each in machines]
    priced = [each for each in listed if each is not None and each.usd_per_hour is not None and each.accelerators]
    if not priced or priced[0].usd_per_hour is None:
        return None
    return priced[0].usd_per_hour * int(model.get("accelerators", 1)) / priced[0].accelerators


def _dollars(model: Mapping[str, Any], pool: Mapping[str, Any], replicas: int, traffic: Traffic, utilization: float) -> Decimal | None:
    hourly = hourly_price(model, pool)
    if hourly is None:
        return None
    tokens = (traffic.input_tokens + traffic.output_tokens) * traffic.requests_per_second / max(utilization, 1.0)
    return hourly * replicas / Decimal(tokens * 3600) * 1_000_000 if math.isfinite(tokens) else None


def _gib(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB"
