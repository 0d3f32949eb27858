"""Measured profiles: results of a benchmark of one model on one pool, used while image, options and hardware are the same."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferplan.kube.paths import mapping
from inferplan.predict.batches import Speed
from inferplan.predict.library import UnknownSpeedError

FORMAT = "inferplan-profile/1"
_LENGTHS = 0.25
"""Relative difference of prompts and answers up to which a measurement stands for the traffic."""
_TIMES = ("startSeconds", "stabilizationSeconds")
_FACTS = ("engine", "accelerators", "batching", "settings")


@dataclass(frozen=True)
class Profile:
    """One profile. `key` is what has to match; `rows` are measurements with prompt tokens, clients, tokens per second and latencies."""

    path: str
    key: Mapping[str, Any]
    job: str
    replicas: int
    output_tokens: int
    rows: Sequence[Mapping[str, Any]]


def key_of(model: Mapping[str, Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that a measurement depends on: image, options and hardware."""
    facts = {name: model.get(name, {}) for name in _FACTS}
    facts["batching"] = {name: value for name, value in facts["batching"].items() if name not in _TIMES}
    return {**facts, "weights": mapping(model, "weights").get("path"), "accelerator": pool.get("accelerator")}


def document(key: Mapping[str, Any], *, job: str, replicas: int, output_tokens: int, rows: Sequence[Mapping[str, Any]]) -> str:
    body = {"format": FORMAT, "key": key, "job": job, "replicas": replicas, "outputTokens": output_tokens, "measurements": list(rows)}
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def load(path: Path, shown: str) -> Profile:
    """The profile in the file `path`. Raises UnknownSpeedError for a file that is not one."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body["format"] != FORMAT:
            raise ValueError(f"its format is {body['format']!r}")
        rows = [
            {name: row[name] for name in ("promptTokens", "concurrency", "tokensPerSecond", "ttftMs", "itlMs")}
            for row in body["measurements"]
        ]
        if wrong := list(_out_of_range(body)):
            raise ValueError(wrong[0])
        return Profile(shown, body["key"], str(body["job"]), int(body["replicas"]), int(body["outputTokens"]), rows)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"misses {error}" if isinstance(error, KeyError) else str(error)
        raise UnknownSpeedError(
            f"{shown} is not a profile of format {FORMAT}: {reason}", "Write it again with inferplan benchmark --keep, or remove it"
        ) from None


def _out_of_range(body: Mapping[str, Any]) -> Iterator[str]:
    """The figures of a profile that cannot be measurements, each with its place."""
    rows = list(enumerate(body["measurements"]))
    figures = [(name, body[name]) for name in ("replicas", "outputTokens")]
    figures += [
        (f"measurements[{index}].{name}", row[name]) for index, row in rows for name in ("promptTokens", "concurrency", "tokensPerSecond")
    ]
    times = ((f"measurements[{index}].{name}", row[name]) for index, row in rows for name in ("ttftMs", "itlMs"))
    figures += [(f"{place}.{rank}", value) for place, ranks in times for rank, value in ranks.items()]
    for place, value in ((place, value) for place, value in figures if value is not None):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            yield f"{place} is {value!r}, expected a number above 0"


def differences(profile: Profile, key: Mapping[str, Any]) -> Iterator[str]:
    """The parts of `key` that differ from those of the measurement."""
    for name in sorted({*profile.key, *key}):
        old, new = profile.key.get(name), key.get(name)
        if name == "batching" and isinstance(old, dict) and isinstance(new, dict):
            yield from (
                f"{part} {old.get(part)!r} instead of {new.get(part)!r}" for part in sorted({*old, *new}) if old.get(part) != new.get(part)
            )
        elif old != new:
            yield f"{name} {old!r} instead of {new!r}"


@dataclass(frozen=True)
class Measured:
    """The measurements of one traffic, by requests per second of one replica."""

    points: Sequence[tuple[float, float, float, int]]

    @property
    def capacity(self) -> float:
        return self.points[-1][0]

    def at(self, rate: float) -> Speed | None:
        """The measured speed at `rate`, between two loads by interpolation; None above the highest."""
        if rate >= self.capacity:
            return None
        before = self.points[0]
        for after in self.points:
            if after[0] >= rate:
                part = 0.0 if after[0] == before[0] else max(0.0, (rate - before[0]) / (after[0] - before[0]))
                ttft, itl, running = (old + part * (new - old) for old, new in zip(before[1:], after[1:], strict=True))
                return Speed(ttft=ttft, itl=itl, running=running)
            before = after
        return None


def measured(profile: Profile, prompt: int, answer: int, percentile: int) -> Measured:
    """The measurements of prompts and answers like these. Raises UnknownSpeedError if there are none."""
    lengths = sorted({row["promptTokens"] for row in profile.rows}, key=lambda each: abs(each - prompt))
    nearest = lengths[0] if lengths else 0
    for what, had, wanted in (("prompts", nearest, prompt), ("answers", profile.output_tokens, answer)):
        if abs(had - wanted) > _LENGTHS * wanted:
            raise UnknownSpeedError(
                f"{profile.path} has no {what} of about {wanted} tokens (the nearest are of {had})",
                "Add them to inferplan:benchmark, and keep the result with inferplan benchmark --keep",
            )
    name = "p50" if percentile <= 50 else "p95" if percentile <= 95 else "p99"
    points = [
        (
            row["tokensPerSecond"] / profile.output_tokens / max(profile.replicas, 1),
            row["ttftMs"][name] / 1000,
            row["itlMs"][name] / 1000,
            row["concurrency"],
        )
        for row in profile.rows
        if row["promptTokens"] == nearest and None not in (row["tokensPerSecond"], row["ttftMs"].get(name), row["itlMs"].get(name))
    ]
    if not points:
        raise UnknownSpeedError(f"{profile.path} has no {name} of prompts of {nearest} tokens", "Repeat the benchmark with more requests")
    return Measured(sorted(points))
