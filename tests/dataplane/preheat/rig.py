"""Real parts for preheat tests: an S3 server, a proxy that misbehaves on request, and the payload run as its container would."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from components.handles import ObjectStore, VolumeClaim
from components.preheat.preheat_job import PreheatJob
from components.preheat.spec import PreheatSpec
from components.storage.spec import WeightsSpec
from tests.recorder import declare

PAYLOAD_HOME = Path(__file__).parents[3] / "components" / "preheat"
SECRET = {"AWS_ACCESS_KEY_ID": "canary-access-key", "AWS_SECRET_ACCESS_KEY": "canary-secret-key"}
BUCKET = "acme-weights"
MODEL = "tiny-llm"
MIB = 1 << 20


def safetensors(size: int, seed: int) -> bytes:
    """A valid safetensors file of exactly `size` bytes with one tensor of noise."""
    room = 128
    header = {"w": {"dtype": "U8", "shape": [size - 8 - room], "data_offsets": [0, size - 8 - room]}}
    noise = random.Random(seed).randbytes(size - 8 - room)  # noqa: S311 - noise for a file, nothing secret
    return struct.pack("<Q", room) + json.dumps(header).encode().ljust(room) + noise


def tiny_model(shards: int = 2, shard_bytes: int = 12 * MIB) -> dict[str, bytes]:
    """Files of a sharded model: large enough shards to travel in segments, and small files beside them."""
    names = [f"model-{n + 1:05}-of-{shards:05}.safetensors" for n in range(shards)]
    index = {"metadata": {}, "weight_map": {f"layer.{n}": name for n, name in enumerate(names)}}
    small = {"config.json": b'{"model_type": "llama"}', "model.safetensors.index.json": json.dumps(index).encode(), "empty.txt": b""}
    return small | {name: safetensors(shard_bytes, n) for n, name in enumerate(names)}


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


@dataclass
class Job:
    """The container of a preheat Job, run on this machine: its command and environment, with mounts mapped to directories."""

    target: Path
    source: ObjectStore | VolumeClaim
    mounts: Mapping[str, Path] = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=dict)
    preheat: Mapping[str, Any] = field(default_factory=dict)
    tuning: Mapping[str, Any] = field(default_factory=dict)
    name: str = "tiny"

    def __post_init__(self) -> None:
        weights = WeightsSpec.model_validate({"store": "weights", "path": MODEL, **self.weights})
        preheat = PreheatSpec.model_validate({"into": "shared", **self.preheat})
        recording = declare(
            lambda: PreheatJob(self.name, weights, preheat, source=self.source, target=VolumeClaim(name="shared"), namespace="inference")
        )
        pod = recording.one("kubernetes:batch/v1:Job").inputs["spec"]["template"]["spec"]
        self._container = pod["containers"][0]
        env = {each["name"]: self._value(each) for each in self._container["env"]}
        request = json.loads(env["PREHEAT_REQUEST"])
        self.directory = self.target / request["directory"]
        fast = {"backoff_seconds": 0.02, "report_seconds": 0.2, "lease_seconds": 3.0, "segment_bytes": 64 * MIB, "stall_seconds": 5.0}
        request |= {**fast, "target": str(self.target), **self.tuning}
        for mounted, here in self.mounts.items():
            request["root"] = request["root"].replace(mounted, str(here))
        env["PREHEAT_REQUEST"] = json.dumps(request)
        self.env = env

    def _value(self, variable: Mapping[str, Any]) -> str:
        if "value" in variable:
            return variable["value"]
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            return SECRET[source["secretKeyRef"]["key"]]
        return {"metadata.name": f"{self.name}-pod", "metadata.namespace": "inference"}[source["fieldRef"]["fieldPath"]]

    def start(self) -> subprocess.Popen[str]:
        """The running container, its output readable as text."""
        command = [sys.executable, *self._container["command"][1:]]
        return subprocess.Popen(
            command, cwd=PAYLOAD_HOME, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def run(self, timeout: float = 90) -> Outcome:
        """Run to the end."""
        process = self.start()
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_group(process)
            raise
        return Outcome(process.returncode, output)

    @property
    def ready(self) -> bool:
        """Whether READY is there."""
        return (self.directory / "READY").is_file()

    def files(self) -> dict[str, bytes]:
        """What a server that mounts the directory would read."""
        found = (path for path in self.directory.rglob("*") if path.is_file() and path.name not in ("READY", "READY.partial"))
        return {path.relative_to(self.directory).as_posix(): path.read_bytes() for path in found}


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a run."""

    code: int
    output: str


def kill_group(process: subprocess.Popen[str]) -> None:
    """kill -9 of a container: its first process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
