"""How long nothing on the cluster has moved: a pod that fits nowhere then never will, since no autoscaler runs here.

It watches nothing itself; whoever applies, deletes or hears of a change says so.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# The scheduler tries a refused pod again 10 s after the last change that could matter to it, at the latest
# (podMaxBackoffSeconds, Kubernetes 1.34); the rest is for a machine that is busy.
STANDSTILL_SECONDS: Final = 60.0


class Standstill:
    """A clock that starts anew with every move; it stands still while somebody is at work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_work = 0
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the last move, 0.0 while something is under way."""
        with self._lock:
            return 0.0 if self._at_work else time.monotonic() - self._since

    def moved(self) -> None:
        """Something changed."""
        with self._lock:
            self._since = time.monotonic()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """For as long as something is being changed, however quietly."""
        with self._lock:
            self._at_work += 1
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= 1
                self._since = time.monotonic()
