"""What long steps report while they run, so that a screen or a plain log can show it.

Knows nothing of any screen: a caller passes a function that takes one event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepStarted:
    """Step `index` of `total` (counted from 1) has begun; `detail` says what is expected of it."""

    step: str
    index: int
    total: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StepWaiting:
    """A step waits; `reason` says for what, `seconds` how long it has waited so far."""

    step: str
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StepFinished:
    """Step `index` of `total` is done after `seconds`; `detail` says what came of it."""

    step: str
    index: int
    total: int
    seconds: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should know and need not act on, such as a repair."""

    text: str


Event = StepStarted | StepWaiting | StepFinished | Notice
Progress = Callable[[Event], None]


def silent(_event: Event) -> None:
    """Show nothing."""


def line_of(event: Event) -> str:
    """The one line of plain text that stands for an event."""
    match event:
        case StepStarted(step, index, total, detail):
            return f"[{index}/{total}] {step}" + (f" ({detail})" if detail else "")
        case StepWaiting(step, reason, seconds):
            return f"      {step}: waiting for {reason}, {seconds:.0f} s so far"
        case StepFinished(step, index, total, seconds, detail):
            return f"[{index}/{total}] {step}: done in {seconds:.1f} s" + (f", {detail}" if detail else "")
        case Notice(text):
            return f"note: {text}"


def plain(event: Event) -> None:
    """Print one line an event to stderr at once: what a log of a build server shows."""
    print(line_of(event), file=sys.stderr, flush=True)
