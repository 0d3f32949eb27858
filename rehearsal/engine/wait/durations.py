"""Durations as Go writes them (`20m`, `1h30m`, `90s`), which custom timeouts use."""

from __future__ import annotations

import re

_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>h|ms|us|µs|ns|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def seconds_of(duration: str) -> float:
    """Seconds in `duration`. Raises ValueError when it is none."""
    parts = list(_PART.finditer(duration))
    if not parts or "".join(part[0] for part in parts) != duration:
        raise ValueError(f"{duration!r} is no duration; write it as 90s, 20m or 1h30m")
    return sum(float(part["number"]) * _SECONDS[part["unit"]] for part in parts)


def spelled(seconds: float) -> str:
    """`seconds` for a reader: `45 s`, `12 min 5 s`, `1 h 3 min`."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
