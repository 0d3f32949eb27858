"""A server with Prometheus's query API on 127.0.0.1, whose values a test sets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Metrics:
    """`values` by a part of the query that asks for them; a query without a value gets an empty result, like a metric that nobody reports."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.address = ""

    def answer(self, query: str) -> list[dict[str, object]]:
        """The vector that answers `query`."""
        value = next((value for part, value in self.values.items() if part in query), None)
        return [] if value is None else [{"metric": {}, "value": [time.time(), f"{value:g}"]}]


@contextmanager
def prometheus() -> Iterator[Metrics]:
    """Serves `Metrics` until the block ends."""
    metrics = Metrics()

    class Handler(BaseHTTPRequestHandler):
        """Answers `/api/v1/query`."""

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": metrics.answer(query)}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        metrics.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield metrics
        finally:
            server.shutdown()
            thread.join()
