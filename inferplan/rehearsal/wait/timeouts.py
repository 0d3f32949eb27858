"""Time limits, and the time since the last change in the cluster."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from inferplan.kube.durations import seconds_of

DEFAULT_SECONDS: Final = 600.0
# The scheduler retries a pending pod within 10 s after the last relevant change
# (podMaxBackoffSeconds, Kubernetes 1.34); the rest is for a busy computer.
IDLE_SECONDS: Final = 60.0


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
