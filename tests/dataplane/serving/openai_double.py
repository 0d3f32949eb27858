"""A streaming server of OpenAI's chat completions in miniature: it answers with the prompt's words
backwards, one event a word.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE_SECONDS

_MODELS = {
    "object": "list",
    "data": [{"id": name, "object": "model", "owned_by": "vllm"} for name in ("chat", "polite")],
}


class OpenAiDouble:
    """Serves on a free loopback port from threads of its own. `bodies` holds what was asked; a
    prompt "fail" ends in an error event.

    After the first event of an answer it waits for `go_on`, which is set unless a test clears it. With
    `keys`, calls below /v1 need one of them.
    """

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        self.bodies: list[dict[str, Any]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(
        double: OpenAiDouble,  # noqa: N805 - inside, self is the handler's
    ) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                _describe(self, double.keys)

            def do_POST(self) -> None:
                if _denied(self, double.keys):
                    return
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                double.bodies.append(body)
                if "messages" not in body:
                    self.send_error(400)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for event in _events(body):
                    line = f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
                    self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                    double.go_on.wait(timeout=PATIENCE_SECONDS)
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gives it
                """Says nothing: a test's output is its own."""

        return Handler


def _denied(handler: BaseHTTPRequestHandler, keys: Sequence[str]) -> bool:
    given = handler.headers.get("Authorization", "").removeprefix("Bearer ")
    if denied := bool(keys) and given not in keys:
        handler.send_error(401)
    return denied


def _describe(handler: BaseHTTPRequestHandler, keys: Sequence[str]) -> None:
    """Answer as vLLM does to those who ask about it."""
    if handler.path.startswith("/v1/") and _denied(handler, keys):
        return
    answers = {"/health": {}, "/v1/models": _MODELS, "/version": {"version": "0.33.0"}}
    if handler.path not in answers:
        handler.send_error(404)
        return
    text = json.dumps(answers[handler.path]).encode()
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(text)))
    handler.end_headers()
    handler.wfile.write(text)


def _events(body: dict[str, Any]) -> list[Any]:
    prompt = body["messages"][-1]["content"]
    if not isinstance(prompt, str):
        prompt = "".join(part.get("text", "") for part in prompt)
    if prompt == "fail":
        return [{"error": {"message": "the engine died", "type": "server_error"}}]
    words = prompt.split()[::-1][
        : body.get("max_tokens") or body.get("max_completion_tokens") or 16
    ]
    common = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": body["model"],
    }
    pieces = [word if number == 0 else f" {word}" for number, word in enumerate(words)]
    answers = [
        {
            **common,
            "choices": [
                {
                    "index": 0,
                    "delta": {"role": "assistant", "content": piece},
                    "finish_reason": None,
                }
            ],
        }
        for piece in pieces
    ]
    last = {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    usage = {
        "prompt_tokens": len(prompt.split()),
        "completion_tokens": len(words),
        "total_tokens": len(prompt.split()) + len(words),
    }
    return [*answers, last, {**common, "choices": [], "usage": usage}, "[DONE]"]
