"""How long to wait before asking a source again, and when to stop asking."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .errors import Stopped

_LONGEST_SECONDS = 30.0
_LOOK_SECONDS = 0.25


class Patience:
    """Up to `retries` further tries, each after twice the time of the one before. `stop` ends any wait."""

    def __init__(self, retries: int, backoff_seconds: float, stop: threading.Event, say: Callable[[str], None]) -> None:
        self.retries = retries
        self.say = say
        self._backoff = backoff_seconds
        self._stop = stop

    def ended(self, tries: int) -> bool:
        """Whether `tries` failures in a row are enough."""
        return tries > self.retries

    def wait(self, tries: int, what: str, problem: str, halted: Callable[[], bool] = lambda: False) -> None:
        """Say what failed and wait for the next try. Raises Stopped when told to stop, or when `halted` turns true."""
        self.say(f"{what}: {problem}; trying again ({tries} of {self.retries})")
        deadline = time.monotonic() + min(_LONGEST_SECONDS, self._backoff * 2 ** (tries - 1))
        while (left := deadline - time.monotonic()) > 0:
            if self._stop.wait(min(left, _LOOK_SECONDS)) or halted():
                raise Stopped
