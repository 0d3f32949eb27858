"""Ctrl-C, SIGTERM and a closed terminal in the moment in which a process starts."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def delayed_interrupts() -> Iterator[Callable[[], None]]:
    """Keep signals from interrupting the block until it calls the yielded function, which delivers
    the signals that came in the meantime; the end of the block delivers them too.

    An exception inside `subprocess.Popen` would lose the process that it started: nothing waits for
    it, and nothing ends it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    arrived: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        arrived.append(number)

    before = {
        number: signal.signal(number, remember)
        for number in _SIGNALS
        if callable(signal.getsignal(number))
    }

    def deliver() -> None:
        while before:
            signal.signal(*before.popitem())
        while arrived:
            signal.raise_signal(arrived.pop(0))

    try:
        yield deliver
    finally:
        deliver()
