"""Durations as text: those of Go, those of objectives, and those that people read."""

import re

_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>h|ms|us|µs|ns|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def seconds_of(duration: str) -> float:
    """Seconds in a Go duration (`20m`, `1h30m`, `90s`). Raises ValueError."""
    parts = list(_PART.finditer(duration))
    if not parts or "".join(part[0] for part in parts) != duration:
        raise ValueError(f"{duration!r} is not a duration. Use for example 90s, 20m or 1h30m.")
    return sum(float(part["number"]) * _SECONDS[part["unit"]] for part in parts)


def spelled(seconds: float) -> str:
    """`seconds` as text: `45 s`, `12 min 5 s`, `1 h 3 min`."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"


def milliseconds_of(duration: str) -> float:
    """Return the milliseconds of a duration such as `800ms` or `1.5s`. Raises ValueError if the
    text is not one, or is 0.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s)", duration)
    value = 0.0 if match is None else float(match[1]) * (1 if match[2] == "ms" else 1000)
    if not value:
        raise ValueError(
            f"{duration!r} is not a duration. Write milliseconds or seconds above 0: 800ms or 1.5s."
        )
    return value
