"""Events that long steps report while they run. A caller passes a function that takes one event."""

import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepStarted:
    """Step `index` of `total` (from 1) has started; `detail` says what to expect."""

    step: str
    index: int
    total: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StepWaiting:
    """A step waits for `reason`, since `seconds`."""

    step: str
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StepFinished:
    """Step `index` of `total` is done after `seconds`; `detail` is its result."""

    step: str
    index: int
    total: int
    seconds: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Information that needs no action, such as a repair."""

    text: str


Event = StepStarted | StepWaiting | StepFinished | Notice
Progress = Callable[[Event], None]


def silent(_event: object) -> None:
    """Ignore the event."""


def line_of(event: Event) -> str:
    match event:
        case StepStarted(step, index, total, detail):
            return f"[{index}/{total}] {step}" + (f" ({detail})" if detail else "")
        case StepWaiting(step, reason, seconds):
            return f"      {step}: waiting for {reason}, {seconds:.0f} s so far"
        case StepFinished(step, index, total, seconds, detail):
            return f"[{index}/{total}] {step}: done in {seconds:.1f} s" + (
                f", {detail}" if detail else ""
            )
        case Notice(text):
            return f"note: {text}"


def plain(event: Event) -> None:
    print(line_of(event), file=sys.stderr, flush=True)
