"""The ways in which a run ends, each with its exit code, and the retries of a source that fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

_SHORTEST_SECRET = 8
_SECRET_NAMES = ("SECRET", "TOKEN", "ACCESS_KEY", "PASSWORD", "HEADERS", "AUTHORIZATION")
_LONGEST_WAIT_SECONDS, _POLL_SECONDS = 30.0, 0.25


class Exit(IntEnum):
    """Exit codes. The Job fails at once on 2 and 3, because the same input fails the same way; it repeats all others."""

    READY = 0
    BAD_REQUEST = 2
    REFUSED = 3
    TARGET = 4
    SOURCE = 5
    LOST_LOCK = 6
    STOPPED = 143


@dataclass(eq=False)
class PreheatError(Exception):
    """Why a run ended without READY, in one line for a human and as fields for the status file."""

    code: Exit
    problem: str
    remedy: str
    file: str | None = None
    expected: str | None = None
    found: str | None = None
    transient: bool = False
    """True if reading the file again may help."""

    @property
    def of_content(self) -> bool:
        """True if the source may have changed during the run, so that it is listed once more."""
        return self.transient or (self.code is Exit.REFUSED and self.file is not None)

    def __str__(self) -> str:
        where = f"{self.file}: " if self.file else ""
        facts = [f"{label} {value}" for label, value in (("expected", self.expected), ("found", self.found)) if value is not None]
        return scrubbed(f"{where}{self.problem}{': ' if facts else ''}{', '.join(facts)}; {self.remedy}")

    def record(self) -> dict[str, str | int | None]:
        fields = {"message": str(self), "file": self.file, "expected": self.expected, "found": self.found}
        return {"code": int(self.code), **{name: scrubbed(text) if text is not None else None for name, text in fields.items()}}


class Stopped(Exception):  # noqa: N818 - not an error: a signal stopped the run
    """A signal stopped the run."""


class Retries:
    """Up to `count` more tries, each after twice the wait of the previous one. `stop` ends a wait."""

    def __init__(self, count: int, backoff_seconds: float, stop: threading.Event, say: Callable[[str], None]) -> None:
        self.count = count
        self._say = say
        self._backoff = backoff_seconds
        self._stop = stop

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def wait(self, tries: int, what: str, problem: str, halted: Callable[[], bool] = lambda: False) -> None:
        """Log the failure and wait for the next try. Raises Stopped after a signal, or when `halted` becomes true."""
        self._say(f"{what}: {problem}; trying again ({tries} of {self.count})")
        deadline = time.monotonic() + min(_LONGEST_WAIT_SECONDS, self._backoff * 2 ** (tries - 1))
        while (left := deadline - time.monotonic()) > 0:
            if self._stop.wait(min(left, _POLL_SECONDS)) or halted():
                raise Stopped


def scrubbed(text: str) -> str:
    """`text` without the value of any credential in this process's environment."""
    for name, value in os.environ.items():
        if any(word in name for word in _SECRET_NAMES):
            # The value of a header is a scheme such as Bearer and the secret, which a message may quote alone.
            for part in (value, *value.split()):
                if len(part) >= _SHORTEST_SECRET:
                    text = text.replace(part, f"<{name}>")
    return text
