from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from inferplan.errors import ClusterError
from inferplan.kube.api import Api, ApiError


class Busy(BaseHTTPRequestHandler):
    """Answers 429 until it was asked often enough."""

    left = 0
    asked = 0

    def _answer(self) -> None:
        type(self).asked += 1
        busy = self.left > 0
        type(self).left -= 1
        body = json.dumps({"message": "storage is (re)initializing"} if busy else {"items": []})
        self.send_response(429 if busy else 200)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST = _answer  # noqa: N815 - names of the library

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name of the library
        pass


@pytest.fixture
def api() -> Iterator[Api]:
    server = HTTPServer(("127.0.0.1", 0), Busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Busy.asked = 0
    client = Api(f"http://127.0.0.1:{server.server_port}", Path("/nowhere"))
    yield client
    client.close()
    server.shutdown()
    server.server_close()


def test_a_busy_server_is_asked_again(api: Api):
    Busy.left = 3
    assert api.get("/apis/ray.io/v1/rayservices") == {"items": []}
    assert Busy.asked == 4


def test_a_server_that_stays_busy_is_an_error(api: Api):
    Busy.left = 100
    with pytest.raises(ClusterError, match="answered HTTP 429: storage is"):
        api.get("/apis/ray.io/v1/rayservices")


def test_an_eviction_that_a_budget_rejects_is_sent_once(api: Api):
    Busy.left = 100
    with pytest.raises(ApiError) as raised:
        api.request("POST", "/api/v1/namespaces/a/pods/b/eviction", body={})
    assert (raised.value.status, Busy.asked) == (429, 1)
