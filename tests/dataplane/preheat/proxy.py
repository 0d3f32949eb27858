"""Servers that misbehave on request and count what they send, and the proxy in front of an S3
server that is one.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE_SECONDS

BUCKET = "acme-weights"
_UNAVAILABLE: tuple[Any, ...] = ("status", 503)


@dataclass
class Faults:
    """What the proxy does to a GET of an object: `plan` maps (path, number of this GET) to an
    action.

    Actions: ("status", code), ("cut", bytes), ("undelimited", bytes), which announces no length,
    ("flip", byte), ("stall",), ("call", function), ("pace", bytes per second).
    """

    plan: Callable[[str, int], tuple[Any, ...] | None] = lambda _path, _count: None
    heads: Callable[[str, int], int | None] = lambda _path, _count: None
    """The status that the HEAD with this number of a file is answered with; None for the honest
    answer.
    """
    gets: dict[str, int] = field(default_factory=dict)
    headed: dict[str, int] = field(default_factory=dict)
    body_bytes: int = 0
    failing_lists: int = 0
    """How many requests for something else than files, such as lists, are answered with 503."""
    before_list: Callable[[], None] = lambda: None
    """What happens before each such request is answered."""
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Answer:
    """What a server says when nothing goes wrong. `length` is what a HEAD announces."""

    status: int
    headers: dict[str, str]
    body: bytearray
    length: str | None = None


def _status(code: int) -> tuple[Any, ...]:
    return "status", code


class Misbehaving(BaseHTTPRequestHandler):
    """Answers as `fetch` says, and then as the server's faults want it."""

    protocol_version = "HTTP/1.1"
    server: FaultyServer  # pyrefly: ignore[bad-override] - the server that makes this handler is always one

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
        """Requests are what the tests count; they need no log."""

    def do_GET(self) -> None:
        faults = self.server.faults
        path = self.path.partition("?")[0]
        action: tuple[Any, ...] = ()
        if self.command == "GET" and self.counts(path):
            with faults.lock:
                faults.gets[path] = count = faults.gets.get(path, 0) + 1
            action = faults.plan(path, count) or ()
        elif self.command == "HEAD" and self.counts(path):
            with faults.lock:
                faults.headed[path] = count = faults.headed.get(path, 0) + 1
            status = faults.heads(path, count)
            action = _status(status) if status else ()
        elif faults.failing_lists > 0 and self.command == "GET":
            with faults.lock:
                faults.failing_lists -= 1
            action = _UNAVAILABLE
        elif self.command == "GET":
            faults.before_list()
        if action[:1] == ("call",):
            action[1]()
        if action[:1] == ("status",):
            body = b"<Error><Code>SlowDown</Code><Message>try later</Message></Error>"
            self.send_response(action[1])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")
            return
        answer = self.fetch()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if action[:1] == ("undelimited",):
            self.send_header("Connection", "close")
        else:
            self.send_header(
                "Content-Length",
                (answer.length if self.command == "HEAD" else str(len(answer.body))) or "0",
            )
        self.end_headers()
        self._send(answer.body if self.command != "HEAD" else bytearray(), action)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks up

    def counts(self, path: str) -> bool:
        """Whether a GET of `path` asks for the bytes of a file."""
        raise NotImplementedError

    def fetch(self) -> Answer:
        """The honest answer to this request."""
        raise NotImplementedError

    def _send(self, data: bytearray, action: tuple[Any, ...]) -> None:
        match action:
            case ("flip", position) if position < len(data):
                data[position] ^= 0x10
            case ("cut" | "undelimited", count):
                self.wfile.write(data[:count])
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            case ("stall",):
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                self.server.released.wait(PATIENCE_SECONDS)
                self.close_connection = True
                return
        step = len(data) if action[:1] != ("pace",) else max(1, action[1] // 100)
        try:
            for start in range(0, len(data), max(1, step)):
                self.wfile.write(data[start : start + step])
                with self.server.faults.lock:
                    self.server.faults.body_bytes += len(data[start : start + step])
                if action[:1] == ("pace",):
                    time.sleep(0.01)
        except OSError:
            self.close_connection = True


class FaultyServer(ThreadingHTTPServer):
    """A server on a free port of this machine that does what `faults` says."""

    daemon_threads = True
    # More than any client opens at once: a connection that finds no place is tried again a second
    # later.
    request_queue_size = 128

    def __init__(self, handler: type[Misbehaving]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.faults = Faults()
        self.released = threading.Event()
        self.scheme = "http"

    def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on, with the certificate of `context`."""
        # The handshake is for the connection's own thread: one client that refuses the certificate
        # keeps no other waiting.
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        self.scheme = "https"

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is part of the plan."""

    def reset(self) -> None:
        """Forget all faults and counts, and release all waiting requests."""
        self.released.set()
        self.released = threading.Event()
        self.faults = Faults()


class _Forward(Misbehaving):
    server: Proxy  # pyrefly: ignore[bad-override] - as above

    def counts(self, path: str) -> bool:
        # A request for the first byte alone asks for the ETag.
        return path.startswith(f"/{BUCKET}/") and self.headers.get("Range") != "bytes=0-0"

    def fetch(self) -> Answer:
        upstream = http.client.HTTPConnection(*self.server.upstream, timeout=PATIENCE_SECONDS)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            upstream.putheader(name, value)
        upstream.endheaders(body or None)
        answer = upstream.getresponse()
        data = bytearray(answer.read())
        ours = ("connection", "transfer-encoding", "server", "date", "content-length")
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in ours}
        upstream.close()
        return Answer(answer.status, headers, data, answer.getheader("Content-Length"))


class Proxy(FaultyServer):
    """Forwards to an S3 server."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        super().__init__(_Forward)
        self.upstream = upstream
