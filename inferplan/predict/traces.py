"""Recorded requests in the public formats of Mooncake (JSON lines) and Azure (CSV), as arrays."""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from inferplan.predict.arrays import np
from inferplan.predict.configurations import UnknownSpeedError

_HOLE_SECONDS = 3600
_WINDOW = 300
_MOST_TOKENS = 10_000_000
BLOCK = 512
"""Tokens of a prompt that each of `hash_ids` stands for (Mooncake, FAST25-release/README, read
2026-11).
"""
_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_OTHERS = (
    ("timestamp", "created_time"),
    ("input_length", "input_tokens"),
    ("output_length", "output_tokens"),
)
_NAMES = tuple((*names, azure) for names, azure in zip(_OTHERS, _AZURE, strict=True))


class TraceError(UnknownSpeedError):
    """A trace that cannot be used: the place, what is allowed, and what to do."""


@dataclass(frozen=True)
class Trace:
    """Arrival times in seconds from the first request, and the tokens of each prompt and answer.
    `blocks` has the hashes of each prompt's blocks; it is empty if a request has none.
    """

    arrivals: np.ndarray
    prompts: np.ndarray
    answers: np.ndarray
    blocks: tuple[tuple[int, ...], ...] = ()

    @property
    def busiest(self) -> float:
        """Requests per second in the busiest five minutes."""
        span = min(_WINDOW, max(float(self.arrivals[-1]), 1.0))
        ends = np.searchsorted(self.arrivals, self.arrivals + span)
        return float((ends - np.arange(len(ends))).max() / span)


def read_trace(path: Path, shown: str) -> Trace:
    """The trace in the file `path`. Raises TraceError that names the line."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(_rows(file, shown))
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(
            f"{shown} cannot be read: {error}. Set traffic.trace to a file below the"
            " project's folder"
        ) from None
    if len(rows) < 2:
        raise TraceError(
            f"{shown} has {len(rows)} requests. A trace needs at least 2; record more, or write"
            " requestsPerSecond instead"
        )
    *columns, blocks = zip(*rows, strict=True)
    lines, times, prompts, answers = (np.array(column) for column in columns)
    _check(shown, lines, times, prompts, answers)
    return Trace(
        times - times[0],
        prompts.astype(int),
        np.maximum(answers.astype(int), 1),
        blocks if all(blocks) else (),
    )


def _check(
    shown: str, lines: np.ndarray, times: np.ndarray, prompts: np.ndarray, answers: np.ndarray
) -> None:
    """Raise TraceError for figures out of range."""
    for values, name, least, most in (
        (times, "seconds", 0, math.inf),
        (prompts, "input tokens", 1, _MOST_TOKENS),
        (answers, "output tokens", 0, _MOST_TOKENS),
    ):
        if (
            wrong := np.flatnonzero(~((values >= least) & (values <= most) & np.isfinite(values)))
        ).size:
            limit = f"at least {least}" if math.isinf(most) else f"{least} to {most:,}"
            place, value = lines[wrong[0]], values[wrong[0]]
            raise TraceError(
                f"{shown}:{place}: {value:g} {name} is out of range. Expected {limit}. Remove the"
                " request, or correct it"
            )
    gaps = np.diff(times)
    if (back := np.flatnonzero(gaps < 0)).size:
        raise TraceError(
            f"{shown}:{lines[back[0] + 1]}: it comes before the request above it. Expected rising"
            " times. Sort the file by time"
        )
    if gaps.max() > max(_HOLE_SECONDS, min(100 * float(np.median(gaps)), 24 * _HOLE_SECONDS)):
        place = int(gaps.argmax())
        raise TraceError(
            f"{shown}:{lines[place + 1]}: no request for {gaps[place] / 3600:.1f} hours before it."
            " A trace must not have holes. Cut it there, or record again"
        )


def _rows(
    file: Iterable[str], shown: str
) -> Iterator[tuple[int, float, float, float, tuple[int, ...]]]:
    """Line, seconds, prompt tokens, answer tokens and hashes of each request."""
    header: list[str] = []
    expected = "timestamp (ms), input_length and output_length"
    for number, line in enumerate(file, 1):
        if number == 1 and not line.lstrip().startswith("{"):
            header, expected = next(csv.reader([line]), []), "a time and two numbers"
            if set(_AZURE) - {*header}:
                raise TraceError(
                    f"{shown}:1: {line.strip()[:60]!r} is not the header of a trace. Expected"
                    f" {','.join(_AZURE)} (Azure) or JSON lines (Mooncake). Convert the file"
                )
            continue
        try:
            row = (
                dict(zip(header, next(csv.reader([line])), strict=False))
                if header
                else json.loads(line)
            )
            time, prompt, answer = (
                next(row[name] for name in names if name in row) for names in _NAMES
            )
            yield (
                number,
                datetime.fromisoformat(time).timestamp() if header else float(time) / 1000,
                float(prompt),
                float(answer),
                () if header else tuple(int(each) for each in row.get("hash_ids") or ()),
            )
        except (ValueError, TypeError, KeyError, RuntimeError):
            wrong = f"{shown}:{number}: {line.strip()[:60]!r} is not a request. Expected {expected}"
            raise TraceError(f"{wrong}. Correct the line, or remove it") from None
