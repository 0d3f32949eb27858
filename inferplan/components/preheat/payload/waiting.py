"""Asks slow servers in threads that a signal leaves behind: a run ends at once, whatever an answer does. Works on many files in few tasks."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, wait
from typing import TypeVar

from .errors import Stopped

_POLL_SECONDS = 0.25
# Fewer than a batch has for each thread, so that all threads stay busy; a task costs as much as several small files.
_FILES_OF_A_TASK = 50
_Item = TypeVar("_Item")
_T = TypeVar("_T")


def in_tasks(pool: Executor, work: Callable[[_Item], _T], items: Sequence[_Item]) -> list[_T]:
    """The result of `work` for each of `items`, in their order. Raises its first error."""

    def several(start: int) -> list[_T]:
        return [work(item) for item in items[start : start + _FILES_OF_A_TASK]]

    return [result for results in pool.map(several, range(0, len(items), _FILES_OF_A_TASK)) for result in results]


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
