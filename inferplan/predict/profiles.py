"""Measured profiles: results of a benchmark of one model on one pool, used while image, options and
hardware are the same.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from inferplan.kube.paths import dotted, mapping
from inferplan.predict.batches import Speed
from inferplan.predict.configurations import UnknownSpeedError

FORMAT = "inferplan-profile/1"
_LENGTHS = 0.25
"""Relative difference of prompts and answers up to which a measurement stands for the traffic."""
_TIMES = ("startSeconds", "stabilizationSeconds")
_FACTS = ("engine", "accelerators", "batching", "settings")
_Count = Annotated[int, Field(gt=0, strict=True)]
_Figure = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel)

    prompt_tokens: _Count
    concurrency: _Count
    tokens_per_second: _Figure | None
    ttft_ms: Mapping[str, _Figure | None]
    itl_ms: Mapping[str, _Figure | None]


class Profile(BaseModel):
    """One profile. `key` is what has to match; `measurements` have prompt tokens, clients, tokens
    per second and latencies.
    """

    model_config = _Row.model_config

    path: str = ""
    format: Literal["inferplan-profile/1"]
    key: Mapping[str, Any]
    job: str
    replicas: _Count
    output_tokens: _Count
    measurements: Sequence[_Row]


def key_of(model: Mapping[str, Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that a measurement depends on: image, options and hardware."""
    facts = {name: model.get(name, {}) for name in _FACTS}
    facts["batching"] = {
        name: value for name, value in facts["batching"].items() if name not in _TIMES
    }
    return {
        **facts,
        "weights": mapping(model, "weights").get("path"),
        "accelerator": pool.get("accelerator"),
    }


def document(
    key: Mapping[str, Any],
    *,
    job: str,
    replicas: int,
    output_tokens: int,
    rows: Sequence[Mapping[str, Any]],
) -> str:
    body = {
        "format": FORMAT,
        "key": key,
        "job": job,
        "replicas": replicas,
        "outputTokens": output_tokens,
        "measurements": list(rows),
    }
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def first_problem(error: ValidationError) -> str:
    """The first wrong value of a file with its place, and what it should be."""
    first = error.errors(include_url=False)[0]
    place = dotted(first["loc"])
    if first["type"] == "missing":
        return f"misses {place}"
    text = first["msg"].removeprefix("Value error, ")
    return f"{place} is {first['input']!r:.80}, {text.replace('Input', 'which')}" if place else text


def load(path: Path, shown: str) -> Profile:
    """The profile in the file `path`. Raises UnknownSpeedError for a file that is not one."""
    try:
        return Profile.model_validate_json(path.read_bytes()).model_copy(update={"path": shown})
    except (OSError, ValidationError) as error:
        reason = str(error) if isinstance(error, OSError) else first_problem(error)
        raise UnknownSpeedError(
            f"{shown} is not a profile of format {FORMAT}: {reason}",
            "Write it again with inferplan benchmark --keep, or remove it",
        ) from None


def differences(profile: Profile, key: Mapping[str, Any]) -> Iterator[str]:
    """The parts of `key` that differ from those of the measurement."""
    old, new = (
        {**each, **mapping(each, "batching"), "batching": None} for each in (profile.key, key)
    )
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{name} {old.get(name)!r} instead of {new.get(name)!r}"


@dataclass(frozen=True)
class Measured:
    """The measurements of one traffic, by requests per second of one replica."""

    points: Sequence[tuple[float, float, float, int]]

    @property
    def capacity(self) -> float:
        return self.points[-1][0]

    def at(self, rate: float, _percentile: int = 0) -> Speed | None:
        """The measured speed at `rate`, between two loads by interpolation; None above the highest."""
        if rate >= self.capacity:
            return None
        after = next(index for index, point in enumerate(self.points) if point[0] >= rate)
        (low, *old), (high, *new) = self.points[max(after - 1, 0)], self.points[after]
        part = (rate - low) / (high - low) if high > low else 0.0
        ttft, itl, running = (
            first + part * (last - first) for first, last in zip(old, new, strict=True)
        )
        return Speed(ttft=ttft, itl=itl, running=running)


def measured(profile: Profile, prompt: int, answer: int, percentile: int) -> Measured:
    """The measurements of prompts and answers like these. Raises UnknownSpeedError if there are
    none.
    """
    nearest = min(
        (row.prompt_tokens for row in profile.measurements),
        key=lambda each: (abs(each - prompt), each),
        default=0,
    )
    for what, had, wanted in (
        ("prompts", nearest, prompt),
        ("answers", profile.output_tokens, answer),
    ):
        if abs(had - wanted) > _LENGTHS * wanted:
            raise UnknownSpeedError(
                f"{profile.path} has no {what} of about {wanted} tokens (the nearest are of {had})",
                "Add them to inferplan:benchmark, and keep the result with inferplan benchmark"
                " --keep",
            )
    name = "p50" if percentile <= 50 else "p95" if percentile <= 95 else "p99"
    rows = [
        (row, row.ttft_ms.get(name), row.itl_ms.get(name))
        for row in profile.measurements
        if row.prompt_tokens == nearest
    ]
    points = [
        (
            row.tokens_per_second / profile.output_tokens / profile.replicas,
            ttft / 1000,
            itl / 1000,
            row.concurrency,
        )
        for row, ttft, itl in rows
        if row.tokens_per_second and ttft and itl
    ]
    if not points:
        raise UnknownSpeedError(
            f"{profile.path} has no {name} of prompts of {nearest} tokens",
            "Repeat the benchmark with more requests",
        )
    return Measured(sorted(points))
