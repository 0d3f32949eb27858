"""A proxy in front of an S3 server that misbehaves on request, and counts what it sends."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUCKET = "acme-weights"


@dataclass
class Faults:
    """What the proxy does to a GET of an object: `plan` maps (path, number of this GET) to an action.

    Actions: ("status", code), ("cut", bytes), ("flip", byte), ("stall",), ("call", function), ("pace", bytes per second).
    """

    plan: Callable[[str, int], tuple[Any, ...] | None] = lambda _path, _count: None
    gets: dict[str, int] = field(default_factory=dict)
    body_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy  # pyrefly: ignore[bad-override] - the server that makes this handler is always one

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
        """Requests are what the tests count; they need no log."""

    def do_GET(self) -> None:
        faults = self.server.faults
        path = self.path.partition("?")[0]
        action: tuple[Any, ...] = ()
        # A request for the first byte alone asks for the ETag.
        content = self.command == "GET" and self.headers.get("Range") != "bytes=0-0"
        if content and path.startswith(f"/{BUCKET}/"):
            with faults.lock:
                faults.gets[path] = count = faults.gets.get(path, 0) + 1
            action = faults.plan(path, count) or ()
        if action[:1] == ("call",):
            action[1]()
        if action[:1] == ("status",):
            body = b"<Error><Code>SlowDown</Code><Message>try later</Message></Error>"
            self.send_response(action[1])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self._forward(action)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks up

    def _forward(self, action: tuple[Any, ...]) -> None:
        upstream = http.client.HTTPConnection(*self.server.upstream, timeout=60)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            upstream.putheader(name, value)
        upstream.endheaders(body or None)
        answer = upstream.getresponse()
        data = bytearray(answer.read())
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "server", "date", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        upstream.close()
        self._send(data, action)

    def _send(self, data: bytearray, action: tuple[Any, ...]) -> None:
        match action:
            case ("flip", position) if position < len(data):
                data[position] ^= 0x10
            case ("cut", count):
                self.wfile.write(data[:count])
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            case ("stall",):
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                self.server.released.wait(60)
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


class Proxy(ThreadingHTTPServer):
    """Forwards to an S3 server and does what `faults` says."""

    daemon_threads = True

    def __init__(self, upstream: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.faults = Faults()
        self.released = threading.Event()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is part of the plan."""
