"""Asks AWS each question once, for all checks of an account."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

Ask = Callable[..., Mapping[str, Any]]
"""`ask("ec2", "describe_vpcs", VpcIds=[...])`: the answer of AWS, all pages of it. An error for a
missing resource has `missing` = True.
"""


class AskOnce:
    """`ask` with the first answer, or the first error, of every question. Checks run in threads, so
    a second one waits for the answer to the first.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._answers: dict[str, Future[Mapping[str, Any]]] = {}
        self._lock = threading.Lock()

    def __call__(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        key = f"{service} {operation} {sorted(parameters.items())}"
        with self._lock:
            is_new = key not in self._answers
            answer = self._answers.setdefault(key, Future())
        if is_new:
            try:
                answer.set_result(self._ask(service, operation, **parameters))
            except Exception as failed:  # noqa: BLE001 - every check that asks gets the error
                answer.set_exception(failed)
        return answer.result()

    @property
    def questions(self) -> int:
        return len(self._answers)
