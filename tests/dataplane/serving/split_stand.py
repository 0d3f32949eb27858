"""A list of pods as the Kubernetes API shows it, and servers of one side of a split model: enough for smg to
find both sides and to call them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.patience import PATIENCE_SECONDS

TRANSFER = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_engine_id": "e1",
    "remote_block_ids": [1, 2],
    "remote_host": "10.0.0.7",
    "remote_port": 5600,
}
"""Where the KV cache of a prompt is, as vLLM's NixlConnector answers."""


class Answering(BaseHTTPRequestHandler):
    """Answers with JSON, and says nothing."""

    protocol_version = "HTTP/1.1"

    def answer(self, value: Any, status: int = 200) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gives it
        """Says nothing: a test's output is its own."""


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def side(engine: str, name: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A server of one side: its port, and the bodies of its calls."""
    bodies: list[dict[str, Any]] = []
    described: Mapping[str, Any] = {
        "/health": {},
        "/v1/models": {"object": "list", "data": [{"id": "chat", "owned_by": engine}]},
        **(
            {"/version": {"version": "0.33.0"}}
            if engine == "vllm"
            else {"/server_info": {"served_model_name": "chat", "disaggregation_mode": name}}
        ),
    }

    class Server(Answering):
        def do_GET(self) -> None:
            known = described.get(self.path)
            self.answer(known or {}, 200 if known is not None else 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bodies.append(body)
            given = (body.get("kv_transfer_params") or {}).get("do_remote_decode")
            message = {"role": "assistant", "content": name}
            self.answer(
                {
                    "id": "chatcmpl-1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": body["model"],
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    **({"kv_transfer_params": TRANSFER} if given else {}),
                }
            )

    with listening(Server) as port:
        yield port, bodies


class Pods:
    """The pods of a namespace, at a port of this machine: lists them, and tells watchers of changes."""

    def __init__(self, directory: Path) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self._pods: dict[str, dict[str, Any]] = {}
        self._events: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    @contextmanager
    def serving(self) -> Iterator[None]:
        with listening(self._handler()) as port:
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
            self.kubeconfig.write_text(json.dumps(config))
            yield

    def add(self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        """Add a ready pod at 127.0.0.1; its port is in an annotation that smg reads."""
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [ready]}
        metadata = {
            "name": name,
            "uid": f"{name}-{len(self._events)}",
            "labels": {**labels},
            "annotations": {**annotations},
        }
        pod = {"metadata": metadata, "spec": {"containers": [{"name": "s"}]}, "status": status}
        self._tell("ADDED", {"kind": "Pod", "apiVersion": "v1", **pod})

    def remove(self, name: str) -> None:
        self._tell("DELETED", self._pods[name])

    def _tell(self, kind: str, pod: dict[str, Any]) -> None:
        with self._changed:
            pod["metadata"]["resourceVersion"] = str(len(self._events) + 1)
            if kind == "ADDED":
                self._pods[pod["metadata"]["name"]] = pod
            else:
                del self._pods[pod["metadata"]["name"]]
            self._events.append({"type": kind, "object": json.loads(json.dumps(pod))})
            self._changed.notify_all()

    def after(self, version: int) -> list[dict[str, Any]]:
        """The events after `version`; waits for the first."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) > version, 2 * PATIENCE_SECONDS)
            return self._events[version:]

    def listed(self) -> dict[str, Any]:
        with self._changed:
            version = {"resourceVersion": str(len(self._events))}
            items = [*self._pods.values()]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": version, "items": items}

    def _handler(
        api: Pods,  # noqa: N805 - inside, self is the handler's
    ) -> type[BaseHTTPRequestHandler]:
        class Handler(Answering):
            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                if "watch" not in asked:
                    self.answer(api.listed())
                    return
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                version = int(asked["resourceVersion"][0])
                while events := api.after(version):
                    version += len(events)
                    for each in events:
                        line = f"{json.dumps(each)}\n".encode()
                        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

        return Handler
