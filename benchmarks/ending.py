"""Ends an interrupted benchmark: stops what it started, and prints one line. Other ends are not hidden."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType

INTERRUPTED = 130
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def ended(main: Callable[[], int], name: str) -> int:
    """The exit code of `main`; after Ctrl-C or SIGTERM 130, once `main` has unwound and so stopped what it started.

    `name` is what the one line about that calls it.
    """
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    try:
        return main()
    except KeyboardInterrupt:
        print(f"{name}: interrupted; what it had started is stopped", file=sys.stderr)
        return INTERRUPTED


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # A second Ctrl-C must not interrupt the stopping.
    for number in _INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
