"""A real Ray Serve runs what we write as serveConfigV2: arguments arrive, answers stream, a prefix
is kept.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.components.handles import SecretRef
from inferplan.components.serving.ray_serve.serve_config import serve_config
from inferplan.components.serving.ray_serve.service import endpoint
from tests.dataplane.gateway.stand import Proxy, consumer, spec
from tests.dataplane.serving.exposed import missing_metrics
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port
from tests.unit.serving.test_ray_serve import CUSTOM, ray

pytestmark = pytest.mark.timeout(900)

SERVER = Path(__file__).parent / "ray_server.py"
START_SECONDS = 600
# The ports that ray_server.py takes, in its order, and the one of the metrics of the running
# server.
AGENTS = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
    "runtime_env_agent_port",
)
METRICS: list[int] = []
# Ray restarts or gives up what does not answer in time, and kills actors where others have filled
# the memory: none of that is tried here.
PATIENT = {
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "600",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "600",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_health_check_timeout_ms": "600000",
    "RAY_gcs_server_request_timeout_seconds": "600",
    "RAY_memory_monitor_refresh_ms": "0",
}
APP = """
import json, os
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from ray import serve
api = FastAPI()
@serve.deployment
@serve.ingress(api)
class Chat:
    def __init__(self, places):
        self.places = places
    @api.post("/words")
    def words(self, given: dict):
        return StreamingResponse((f"{word}\\n" for word in given["text"].split()), media_type="text/plain")
    @api.get("/places")
    def where(self):
        return {**self.places, "mood": os.environ.get("MOOD"), "replica": serve.get_replica_context().deployment}
def build(args):
    return Chat.bind(args)
"""


@pytest.fixture(scope="module")
def port(ray_environment, tmp_path_factory):
    directory = tmp_path_factory.mktemp("ray")
    (directory / "tiny_app.py").write_text(APP)
    app: dict[str, Any] = {
        **CUSTOM,
        "importPath": "tiny_app:build",
        "checkpointPath": "run-7",
        "env": {"MOOD": "calm"},
    }
    app["deployments"] = {
        "Chat": {
            "cpus": 0.2,
            "maxOngoingRequests": 4,
            "autoscaling": {"minReplicas": 1, "maxReplicas": 2},
        }
    }
    config = serve_config(
        "chat",
        dict(ray(applications={"rag": app}).applications),
        weights="/models/chat",
        resource="GPU",
    )
    chosen = free_port()
    # The only change: loopback and a port that is free, where a pod has its own address.
    config["http_options"] = {"host": "127.0.0.1", "port": chosen}
    ports = [free_port() for _ in AGENTS]
    METRICS.append(ports[AGENTS.index("metrics_export_port")])
    environment = {
        **os.environ,
        **PATIENT,
        "PYTHONPATH": str(directory),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": "/tmp",  # noqa: S108 - Ray's sockets need a path of at most 107 bytes
    }
    with (directory / "log").open("w+") as log:
        process = subprocess.Popen(
            [str(ray_environment.python), str(SERVER), yaml.safe_dump(config), *map(str, ports)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        limit = threading.Timer(START_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        try:
            ready = any(line.strip() == "READY" for line in iter(process.stdout.readline, ""))
            limit.cancel()
            log.seek(0)
            assert ready, log.read()[-3000:]
            yield chosen
        finally:
            limit.cancel()
            process.stdin.close()
            try:
                process.wait(timeout=PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def ask(
    port: int, method: str, path: str, body: object = None
) -> tuple[int, list[str], str | None]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request(
            method,
            path,
            None if body is None else json.dumps(body),
            {"Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        return (
            answer.status,
            answer.read().decode().splitlines(),
            answer.getheader("Transfer-Encoding"),
        )
    finally:
        connection.close()


@pytest.fixture(scope="module")
def gateway(port, tmp_path_factory):
    made = endpoint(
        "chat",
        ray(applications={"rag": {**CUSTOM, "importPath": "tiny_app:build"}}, consumers=["team"]),
        SecretRef(name="", key=""),
    )
    here = replace(
        made, host="127.0.0.1", protocols=tuple(replace(each, port=port) for each in made.protocols)
    )
    proxy = Proxy(tmp_path_factory.mktemp("gateway"))
    allowed = {"origins": ["https://chat.example"]}
    yield proxy.run(spec(cors=allowed), [here], {"team": consumer(keys=[1])})
    proxy.stop()


def test_the_builder_gets_the_checkpoint_and_the_process_its_variables(port):
    status, [text], _ = ask(port, "GET", "/rag/places")
    assert status == 200
    assert json.loads(text) == {
        "checkpoint_path": "/models/chat/run-7",
        "mood": "calm",
        "replica": "Chat",
    }


def test_an_answer_streams(port):
    assert ask(port, "POST", "/rag/words", {"text": "one two three"}) == (
        200,
        ["one", "two", "three"],
        "chunked",
    )


def test_what_is_not_below_the_prefix_is_not_there(port):
    assert ask(port, "GET", "/places")[0] == 404


def test_the_endpoints_health_path_answers(port):
    assert ask(port, "GET", "/-/healthz")[0] == 200


def test_the_gateway_streams_an_application_s_answer_with_its_key_and_to_the_browser_that_may(
    gateway,
):
    body = json.dumps({"text": "one two three"}).encode()
    headers = {"Content-Type": "application/json", "Origin": "https://chat.example"}
    answer = gateway.call("POST", "/chat/serve/rag/words", gateway.key("team"), body, headers)
    assert (answer.status, answer.body, answer.headers["transfer-encoding"]) == (
        200,
        b"one\ntwo\nthree\n",
        "chunked",
    )
    assert answer.headers["access-control-allow-origin"] == "https://chat.example"
    assert gateway.call("POST", "/chat/serve/rag/words", None, body, headers).status == 401
    assert gateway.call("GET", "/chat/serve/-/healthz", gateway.key("team")).status == 404


def test_the_server_exposes_every_pinned_metric(port):
    for _ in range(3):
        ask(port, "GET", "/rag/places")
    # Ray's workers report to the exporter every few seconds.
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (missing := missing_metrics("ray-serve", METRICS[-1])) and time.monotonic() < deadline:
        ask(port, "GET", "/rag/places")
        time.sleep(1)  # nothing tells when the exporter has a report
    assert missing == []
