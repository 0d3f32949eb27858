"""Triton behind the gateway, both real: the client's key opens the gateway, the server's own key
opens the server, over HTTP and gRPC.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from inferplan.components.gateway import keys
from inferplan.components.handles import SecretRef
from inferplan.components.serving.pytriton.service import endpoint as pytriton_endpoint
from inferplan.components.serving.pytriton.spec import PyTritonSpec
from inferplan.components.serving.triton.service import endpoint as triton_endpoint
from inferplan.components.serving.triton.service import key_args
from tests.dataplane.gateway.stand import SEED, Proxy, consumer, spec
from tests.dataplane.serving.test_pytriton import serving
from tests.dataplane.serving.triton_models import GENERATION, GENERATOR
from tests.dataplane.serving.triton_stand import generated, running, spec_of
from tests.patience import PATIENCE_SECONDS

CLIENT = Path(__file__).parent / "grpc_client.py"
KEY = SecretRef(name="chat-server-key", key="api-key")
CONSUMERS = {"team": consumer(keys=[1]), "other": consumer(keys=[1])}


def behind_gateway(directory, made):
    """The gateway in front of what `made` describes, on loopback."""
    return Proxy(directory).run(
        spec(), [replace(made, host="127.0.0.1", consumers=("team",))], CONSUMERS
    )


@pytest.fixture(scope="module")
def triton(tritonserver, tmp_path_factory):
    wanted = spec_of(
        {
            "whole": {**GENERATION, "generator": GENERATOR},
            "pieces": {**GENERATION, "generator": GENERATOR, "streaming": True},
        },
        accelerators=2,
    )
    weights = tmp_path_factory.mktemp("weights")
    arguments = key_args(keys.server_key(SEED, "chat"))
    with running(
        tritonserver,
        wanted,
        generated(wanted, weights),
        tmp_path_factory.mktemp("repository"),
        *arguments,
    ) as server:
        proxy = behind_gateway(
            tmp_path_factory.mktemp("gateway"), triton_endpoint("chat", wanted, KEY)
        )
        yield server, proxy
        proxy.stop()


@pytest.fixture(scope="module")
def pytriton(tritonserver, tmp_path_factory):
    with serving(tritonserver, tmp_path_factory.mktemp("py"), streaming=True) as (server, _):
        wanted = PyTritonSpec.model_validate(
            {
                "engine": "pytriton",
                "weights": {"store": "s", "path": "p"},
                "pool": "p",
                "ports": server.spec.ports.model_dump(),
            }
        )
        proxy = behind_gateway(
            tmp_path_factory.mktemp("gateway"), pytriton_endpoint("chat", wanted, KEY)
        )
        yield server, proxy
        proxy.stop()


def grpc(server, port, calls, *metadata):
    """The answers to `calls` with each of `metadata`: one process for all, because starting it
    takes longer than the calls.
    """
    arguments = [f"127.0.0.1:{port}", *map(json.dumps, (calls, *metadata))]
    done = subprocess.run(
        [str(server.binary.environment.python), str(CLIENT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_grpc_infers_and_streams_through_the_gateway_with_the_key_as_metadata(triton):
    server, proxy = triton
    metadata = {"x-api-key": proxy.key("team"), "x-model": "chat"}
    whole = ["whole", {"text_input": ["BYTES", ["a b", "c d"]]}, False]
    pieces = ["pieces", {"text_input": ["BYTES", ["x y z"]], "stream": ["BOOL", [True]]}, True]
    assert grpc(server, proxy.grpc_port, [whole, pieces], metadata) == [
        [["b a", "d c"]],
        [["z"], ["y"], ["x"]],
    ]


def test_grpc_streams_from_pytriton_through_the_gateway_with_the_key_as_metadata(pytriton):
    server, proxy = pytriton
    metadata = {"authorization": f"Bearer {proxy.key('team')}", "x-model": "chat"}
    call = ["text_generation", {"text_input": ["BYTES", ["x y z"]]}, True]
    assert grpc(server, proxy.grpc_port, [call], metadata) == [[["z"], ["y"], ["x"]]]


@pytest.mark.parametrize("engine", ["triton", "pytriton"])
def test_without_a_consumers_right_no_grpc_call_reaches_the_server(engine, request):
    server, proxy = request.getfixturevalue(engine)
    call = ["text_generation", {"text_input": ["BYTES", ["x"]]}, False]
    said = {
        "not valid": {"x-model": "chat"},
        "may not call": {"x-model": "chat", "x-api-key": proxy.key("other")},
        "x-model": {"x-api-key": proxy.key("team")},
    }
    answers = grpc(server, proxy.grpc_port, [call], *said.values())
    assert [words for words, answer in zip(said, answers, strict=True) if words not in answer] == []


@pytest.mark.parametrize("engine", ["triton", "pytriton"])
def test_past_the_gateway_the_server_asks_for_its_own_key_over_grpc_too(engine, request):
    server, proxy = request.getfixturevalue(engine)
    call = ["text_generation", {"text_input": ["BYTES", ["x"]]}, False]
    others = (
        {"x-api-key": proxy.key("team")},
        {"triton-grpc-protocol-authorization": "Bearer ips_wrong"},
    )
    answers = grpc(server, server.spec.ports.grpc, [call], {}, *others)
    assert [("restricted" in answer) for answer in answers] == [True] * 3


def test_past_the_gateway_triton_answers_health_and_nothing_else_over_http(triton):
    server, _ = triton
    assert server.ask("GET", "/v2/health/ready")[0] == 200
    assert server.ask("GET", "/v2/models/whole/ready")[0] == 200
    for method, path in (
        ("POST", "models/whole/infer"),
        ("POST", "models/whole/generate_stream"),
        ("GET", "models/whole"),
        ("POST", "repository/index"),
    ):
        assert server.ask(method, f"/v2/{path}", {})[0] == 403, path


@pytest.mark.parametrize(
    ("engine", "model"), [("triton", "pieces"), ("pytriton", "text_generation")]
)
def test_http_streams_through_the_gateway(engine, model, request):
    _, proxy = request.getfixturevalue(engine)
    body = json.dumps({"text_input": "x y z", "stream": True}).encode()
    answer = proxy.call("POST", f"/chat/v2/models/{model}/generate_stream", proxy.key("team"), body)
    assert answer.status == 200, answer.body
    events = [
        json.loads(line[6:])
        for line in answer.body.decode().splitlines()
        if line.startswith("data: ")
    ]
    assert [each["text_output"] for each in events] == ["z", "y", "x"]
