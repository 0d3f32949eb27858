"""How a run can end, each way with an exit code of its own, so that the Job knows whether trying again makes sense.

It judges nothing: whoever finds a fault raises a `PreheatError` that names the file, what was expected, what was found, what to do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import IntEnum

_SHORTEST_SECRET = 8
_SECRET_NAMES = ("SECRET", "TOKEN", "ACCESS_KEY", "PASSWORD", "HEADERS", "AUTHORIZATION")


class Exit(IntEnum):
    """Exit codes. The Job gives up at once on 2 and 3, since the same input would fail the same way."""

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
    """Whether reading the file again may help."""

    @property
    def of_content(self) -> bool:
        """Whether the source may have changed while it was read, so that it is worth listing once more."""
        return self.transient or (self.code is Exit.REFUSED and self.file is not None)

    def __str__(self) -> str:
        where = f"{self.file}: " if self.file else ""
        facts = [f"{label} {value}" for label, value in (("expected", self.expected), ("found", self.found)) if value is not None]
        return scrubbed(f"{where}{self.problem}{': ' if facts else ''}{', '.join(facts)}; {self.remedy}")

    def record(self) -> dict[str, str | int | None]:
        """The failure for the status file."""
        fields = {"message": str(self), "file": self.file, "expected": self.expected, "found": self.found}
        return {"code": int(self.code), **{name: scrubbed(text) if text is not None else None for name, text in fields.items()}}


class Stopped(Exception):  # noqa: N818 - not an error: the run was asked to stop
    """The run was told to stop."""


def scrubbed(text: str) -> str:
    """`text` without the value of any credential that this process holds in its environment."""
    for name, value in os.environ.items():
        if any(word in name for word in _SECRET_NAMES):
            # A header's value is a word such as Bearer and the secret itself, which may be quoted alone.
            for part in (value, *value.split()):
                if len(part) >= _SHORTEST_SECRET:
                    text = text.replace(part, f"<{name}>")
    return text
