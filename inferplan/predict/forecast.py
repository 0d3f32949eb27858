"""The forecast of one model from the facts of its stack: memory, speed, utilization and price, each
with its source or a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from inferplan.hardware.prices import price_list
from inferplan.kube.facts import Subjects
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import bytes_of
from inferplan.predict.bands import Band, band_of, twice
from inferplan.predict.batches import Replica, Speed
from inferplan.predict.configurations import UnknownSpeedError, check_release
from inferplan.predict.library import MEASURE, Memory, borrowed, kernels
from inferplan.predict.memory import (
    cache_of,
    layers_of,
    memory_of,
    positions_of,
    quantized,
    tokens_of,
)
from inferplan.predict.profiles import Measured, differences, key_of, load, measured
from inferplan.predict.traffic import Objective, Traffic, objective_of, placed, traffic_of

# Weights with fewer bytes than this share of the layers count as quantized.
_QUANTIZED = 0.8
Source = Literal["predicted", "measured", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The figures of one model under its traffic. `speed` is None if nothing is known or if the
    replicas cannot serve it.

    `problems` are weights that do not fit and prompts that cannot be served; `reason` says why
    figures are missing, and what to do. `dollars` are for a million tokens, of prompts and answers
    together, at the traffic of the file. `doubt` says that the replicas may be overloaded, within the
    error of the capacity, and `served` is the share of `tokens_per_second` that the least capacity
    within that error serves.
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
    served: float = 1.0
    band: Band | None = None
    fatal: str = ""
    problems: tuple[str, ...] = ()
    doubt: str = ""


def forecasts(
    subjects: Subjects, root: Path, profiles: Mapping[str, Path] | None = None
) -> list[Forecast]:
    """The forecasts of all models with traffic; `root` has its traces. `profiles` are the files of
    measured profiles, by model.
    """
    return [
        forecast(
            name,
            facts,
            subjects.get(("pool", facts.get("pool", "")), {}),
            root,
            (profiles or {}).get(name),
        )
        for (kind, name), facts in sorted(subjects.items())
        if kind == "model" and facts.get("traffic")
    ]


def forecast(
    name: str,
    model: Mapping[str, Any],
    pool: Mapping[str, Any],
    root: Path,
    profile: Path | None = None,
) -> Forecast:
    """The forecast of the model `name` with the facts `model`, on a pool with the facts `pool`, by
    its `profile` if that still matches.
    """
    model = placed(model, root)
    facts = {
        "model": name,
        "pool": str(model["pool"]),
        "replicas": model.get("replicas", 0),
        "objective": objective_of(model),
    }
    stale = ""
    try:
        traffic, _ = traffic_of(model, root)
        try:
            if profile is not None:
                return _measured(model, pool, traffic, profile, facts)
        except UnknownSpeedError as error:
            stale = f"{error}. "
        return _predicted(
            model,
            pool,
            traffic,
            facts | {"reason": f"{stale}The figures are predicted" if stale else ""},
        )
    except UnknownSpeedError as error:
        # The same words on every machine.
        reason = f"{stale}{error}".replace(f"{root}/", "")
        return Forecast(**facts, source="unknown", reason=reason, **_held(model, pool))


def _held(model: Mapping[str, Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of the memory, and what does not fit it, where the speed is unknown."""
    known = memory_of(model, pool) if pool.get("accelerator") else None
    if known is None:
        return {}
    memory, tokens = known
    fatal, problems = _fit(memory, tokens, model)
    return {"memory": memory, "fatal": fatal, "problems": problems}


def _fit(
    memory: Memory, tokens: int, model: Mapping[str, Any], longest: int = 0
) -> tuple[str, tuple[str, ...]]:
    """The reason why the weights do not fit, or the problems of the context and of requests of
    `longest` tokens.
    """
    batching, positions = mapping(model, "batching"), positions_of(model)
    if tokens <= 0:
        return (
            f"the weights take {_gib(memory.weights)} of the {_gib(memory.capacity)} of an"
            " accelerator, which leaves no KV cache. Raise tensorParallelSize, use a larger"
            " accelerator, or quantized weights"
        ), ()
    context, problems = batching.get("contextLength"), []
    if context is not None and positions is not None and context > positions:
        problems.append(
            f"contextLength {context:,} is more than the {positions:,} positions in the model's"
            " config.json: the engine does not start, unless --hf-overrides extends them"
        )
    if context is not None and context > tokens:
        problems.append(
            f"contextLength {context:,} is more than the {tokens:,} tokens that the KV cache holds:"
            " the engine does not start"
        )
    if longest > min(context or longest, tokens):
        problems.append(
            f"a request of {longest:,} tokens does not fit: prompts and answers may have"
            f" {min(context or tokens, tokens):,}"
        )
    return "", tuple(problems)


def _measured(
    model: Mapping[str, Any],
    pool: Mapping[str, Any],
    traffic: Traffic,
    path: Path,
    facts: Mapping[str, Any],
) -> Forecast:
    """The forecast by a profile. Raises UnknownSpeedError if it is not of this image, these
    options, hardware and lengths.
    """
    profile = load(path, f"{path.parent.parent.name}/{path.parent.name}/{path.name}")
    if changed := list(differences(profile, key_of(model, pool))):
        raise UnknownSpeedError(
            f"{profile.path} was measured with {', '.join(changed)}",
            "Repeat the benchmark and keep its result, or remove the profile",
        )
    curve = measured(
        profile, traffic.input_tokens, traffic.output_tokens, facts["objective"].percentile
    )
    basis = f"benchmark {profile.job} ({profile.path})"
    return Forecast(
        **facts, source="measured", basis=basis, **_figures(curve, model, pool, traffic, facts)
    )


def _figures(
    curve: Measured | Replica,
    model: Mapping[str, Any],
    pool: Mapping[str, Any],
    traffic: Traffic,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """The figures that follow from the speed of one replica under load."""
    replicas = max(1, facts["replicas"])
    rate, hourly = traffic.requests_per_second / replicas, hourly_price(model, pool)
    tokens = (traffic.input_tokens + traffic.output_tokens) * min(rate, curve.capacity)
    return {
        "traffic": traffic,
        "speed": curve.at(rate, facts["objective"].percentile),
        "utilization": rate / curve.capacity,
        "tokens_per_second": min(rate, curve.capacity) * traffic.output_tokens,
        "dollars": None if hourly is None else hourly / Decimal(tokens * 3600) * 1_000_000,
    }


def replica_of(
    model: Mapping[str, Any], pool: Mapping[str, Any], traffic: Traffic
) -> tuple[Replica, Memory, int]:
    """The replica, its memory, and the tokens that its KV cache holds. Raises UnknownSpeedError for
    what was not measured.
    """
    batching, accelerator = mapping(model, "batching"), str(pool.get("accelerator") or "CPUs")
    if "framework" not in batching:
        raise UnknownSpeedError(
            f"nothing predicts models of engine {model.get('engine')} on {accelerator}", MEASURE
        )
    check_release(batching["framework"], batching.get("image", ""))
    if str(pool.get("resource", "")).partition("/")[2].startswith("mig-"):
        raise UnknownSpeedError(f"nothing predicts slices of {accelerator}", MEASURE)
    steps = kernels(
        model=str(
            mapping(model, "traffic").get("model") or mapping(model, "weights").get("path", "")
        ),
        accelerator=accelerator,
        framework=batching["framework"],
        tensor_parallel_size=batching["tensorParallelSize"],
        pipeline_parallel_size=batching["pipelineParallelSize"],
        quantization=batching.get("quantization"),
        cache_type=batching.get("cacheType"),
    )
    memory = steps.memory(batching["maxTokensPerStep"])
    stated, split = mapping(model, "weights").get("size"), batching["tensorParallelSize"]
    split *= batching["pipelineParallelSize"]
    if stated and bytes_of(stated) < _QUANTIZED * memory.weights * split:
        raise UnknownSpeedError(
            f"the weights have {_gib(bytes_of(stated))}, and the layers of {steps.model} in the type"
            f" of the measured kernels {_gib(memory.weights * split)}",
            f"State quantization, or correct weights.size. {MEASURE}",
        )
    if stated and (batching.get("quantization") or quantized(steps.model)):
        memory = replace(memory, weights=bytes_of(stated) / split)
    if not memory.per_token or borrowed(steps.model):
        # The library counts no cache of layers that differ from one another.
        memory = replace(memory, per_token=cache_of(steps.model, batching))
    tokens = tokens_of(memory, batching)
    answer = int(traffic.output_tokens * steps.answer_held)
    own = traffic.input_tokens - traffic.cached_tokens + answer
    slots = max(1, min((tokens - traffic.cached_tokens) // max(own, 1), batching["maxSequences"]))
    limits = {"slots": slots, "tokens_per_step": batching["maxTokensPerStep"]}
    lengths = {
        "prompt": traffic.input_tokens,
        "cached": traffic.cached_tokens,
        "answer": traffic.output_tokens,
    }
    return Replica(steps=steps, **lengths, **limits), memory, tokens


def _predicted(
    model: Mapping[str, Any], pool: Mapping[str, Any], traffic: Traffic, facts: Mapping[str, Any]
) -> Forecast:
    replica, memory, tokens = replica_of(model, pool, traffic)
    longest = traffic.input_tokens + traffic.output_tokens
    image = mapping(model, "batching").get("image")
    basis = f"{replica.steps.basis}; the image is {image}" if image else replica.steps.basis
    facts = {**facts, "source": "predicted", "basis": basis, "memory": memory}
    fatal, problems = _fit(memory, tokens, model, longest)
    if fatal:
        return Forecast(**facts, traffic=traffic, sequences=0, fatal=fatal)
    figures = _figures(replica, model, pool, traffic, facts)
    band, used = error_band(replica), figures["utilization"]
    return Forecast(
        **facts,
        **figures,
        sequences=replica.slots,
        band=band,
        problems=problems,
        doubt=_doubt(used, band),
        served=max(1.0, used) / max(1.0, used * (1 + band.capacity)),
    )


def error_band(replica: Replica) -> Band:
    steps = replica.steps
    band = band_of(steps.framework, steps.system, layers_of(steps.model))
    return twice(band) if borrowed(steps.model) else band


def _doubt(used: float, band: Band) -> str:
    """The sentence on a utilization that is 100% within the error of the capacity."""
    if not used * (1 - band.capacity) < 1 <= used * (1 + band.capacity):
        return ""
    return (
        f"utilization is {used:.0%}, and the predicted capacity errs by up to"
        f" {band.capacity:.0%}: the replicas may be overloaded. Add one, or measure it"
    )


def hourly_price(model: Mapping[str, Any], pool: Mapping[str, Any]) -> Decimal | None:
    """The list price of the accelerators of one replica for an hour; None if the price table has no
    such machine.
    """
    for each in map(price_list().machines.get, pool.get("machines", ())):
        if each is not None and each.usd_per_hour is not None and each.accelerators:
            return each.usd_per_hour * int(model.get("accelerators", 1)) / each.accelerators
    return None


def _gib(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB"
