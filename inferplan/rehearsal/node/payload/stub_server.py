#!/usr/bin/python3
"""The program `vllm` in images of stubs: answers vLLM's HTTP calls without a model. It takes the
arguments of `vllm serve` and ignores those of the engine. The standard library only.
"""

import argparse
import json
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command")
    parser.add_argument("model", nargs="?", default="model")
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 - a pod's own network
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", nargs="+", default=None)
    parser.add_argument("--api-key", nargs="+", default=[])
    return parser.parse_known_args()[0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            listed = [{"id": each, "object": "model"} for each in self.names]
            self._send(200, {"object": "list", "data": listed})
        else:
            self._send(200 if self.path in ("/health", "/metrics") else 404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.keys and given not in self.keys:
            self._send(401, {"error": {"message": "Unauthorized"}})
            return
        words = f"This is the stub of {self.names[0]} in a container. No model has read the prompt."
        if body.get("stream"):
            self._stream(words.split(" "))
        else:
            message = {"role": "assistant", "content": words}
            choice = {"index": 0, "message": message, "text": words, "finish_reason": "stop"}
            self._send(
                200, {"object": "chat.completion", "model": self.names[0], "choices": [choice]}
            )

    def _stream(self, words: list[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for index, word in enumerate(words):
            delta = {"content": f" {word}" if index else word}
            choice: dict[str, Any] = {"index": 0, "delta": delta, "text": delta["content"]}
            chunk = {"object": "chat.completion.chunk", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _send(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in http.server
        """Log nothing: probes would fill the log."""


def main() -> None:
    chosen = options()
    Handler.names = tuple(chosen.served_model_name or [chosen.model])
    Handler.keys = tuple(chosen.api_key)
    server = ThreadingHTTPServer((chosen.host, chosen.port), Handler)
    # After SIGTERM the server finishes its answers, as vLLM does.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    server.server_close()
    sys.exit(0)


if __name__ == "__main__":
    main()
