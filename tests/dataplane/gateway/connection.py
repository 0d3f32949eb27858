"""A client's connection to the gateway."""

from __future__ import annotations

import http.client
from typing import Any

from tests.patience import PATIENCE_SECONDS


class Connection(http.client.HTTPConnection):
    """Sends the head and the body of a request in one write.

    The gateway answers a call without a key at its head, and waits a few seconds for the body. A
    client that is delayed between two writes would find the connection closed.
    """

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        self._written: list[bytes] = []

    def request(self, *arguments: Any, **options: Any) -> None:
        self._written.clear()
        super().request(*arguments, **options)
        super().send(b"".join(self._written))

    def send(self, data: Any) -> None:
        self._written.append(bytes(data))
