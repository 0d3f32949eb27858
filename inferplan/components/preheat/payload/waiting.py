"""Asks slow servers in threads that a signal leaves behind: a run ends at once, whatever an answer does."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TypeVar

from .errors import Stopped

_POLL_SECONDS = 0.25
_T = TypeVar("_T")


class NoAnswer(Exception):  # noqa: N818 - named after what happened
    """The time for an answer is over."""


def answers(questions: Iterable[Callable[[], _T]], stop: threading.Event, *, threads: int = 1, seconds: float = float("inf")) -> list[_T]:
    """The answers in the order of `questions`, of which `threads` are asked at once.

    Raises what the first failed question raised, Stopped when `stop` is set, NoAnswer after `seconds`.
    """
    pending: deque[tuple[Callable[[], _T], Future[_T]]] = deque((question, Future()) for question in questions)
    results = [future for _question, future in pending]
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                question, answer = pending.popleft()
            except IndexError:
                return
            try:
                answer.set_result(question())
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for the answer
                answer.set_exception(error)
                over.set()

    # The threads of a pool would keep the process alive until their server has answered.
    for _ in range(min(threads, len(results))):
        threading.Thread(target=work, name="question", daemon=True).start()
    end = time.monotonic() + seconds
    try:
        while True:
            done, waiting = wait(results, timeout=_POLL_SECONDS, return_when=FIRST_EXCEPTION)
            if stop.is_set():
                raise Stopped
            failed = next((each for each in results if each in done and each.exception() is not None), None)
            if failed is not None or not waiting:
                return [each.result() for each in ([failed] if failed is not None else results)]
            if time.monotonic() > end:
                raise NoAnswer
    finally:
        over.set()
