"""Durations, time limits, and the time since the last change in the cluster."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from typing import Final

DEFAULT_SECONDS: Final = 600.0
# The scheduler retries a pending pod within 10 s after the last relevant change
# (podMaxBackoffSeconds, Kubernetes 1.34); the rest is for a busy computer.
IDLE_SECONDS: Final = 60.0
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


def limit_of(duration: str | None, annotated: str = "") -> float:
    """The seconds of a custom timeout, else those of the annotation `pulumi.com/timeoutSeconds`,
    else ten minutes.
    """
    if duration:
        return seconds_of(duration)
    return float(annotated) if annotated.isdigit() else DEFAULT_SECONDS


class IdleClock:
    """Seconds since the last change in the cluster; 0 while the rehearsal is changing something."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = 0
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        with self._lock:
            return 0.0 if self._busy else time.monotonic() - self._since

    def reset(self) -> None:
        with self._lock:
            self._since = time.monotonic()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1
                self._since = time.monotonic()
