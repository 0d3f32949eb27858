"""vLLM itself, started with the arguments and variables that we render, behind the real gateway:
only in the whole suite.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from inferplan.components.gateway import keys
from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.monitoring.vocabulary import engine_metrics
from inferplan.components.serving.vllm.service import endpoint
from tests.dataplane.gateway.stand import SEED, Proxy, consumer, spec
from tests.dataplane.serving.exposed import exposed, missing_metrics
from tests.dataplane.serving.vllm_stand import START_SECONDS, prepared, serve, weights
from tests.patience import PATIENCE_SECONDS
from tests.unit.serving.models import KEY, container_of, declared, pool, vllm
from tests.unit.serving.vllm_flags import FLAGS, READER, flags_of

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]

NAME, ROUTE, ALIAS = "chat", "chat-large", "acme/gpt:1"
MODEL = vllm(
    dtype="float32", maxModelLen=256, maxNumSeqs=8, enablePrefixCaching=True, extraArgs=["--enforce-eager"], consumers=["team"],
    loraAdapters={"polite": "adapters/polite"}, maxLoraRank=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def environment(vllm_environment):
    return prepared(vllm_environment)


@pytest.fixture(scope="module")
def models(environment, tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    weights(environment, directory / NAME)
    return directory


@pytest.fixture(scope="module")
def server(environment, models, tmp_path_factory):
    directory = tmp_path_factory.mktemp("vllm")
    running = serve(
        environment,
        container_of(MODEL, public_names=(ROUTE, ALIAS)),
        models=models,
        key=keys.server_key(SEED, NAME),
        directory=directory,
    )
    try:
        running.await_ready(container_of(MODEL)["startupProbe"]["httpGet"]["path"], START_SECONDS)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def gateway(server, tmp_path_factory):
    made = endpoint(NAME, MODEL, KEY)
    here = replace(
        made,
        host="127.0.0.1",
        protocols=tuple(replace(each, port=server.port) for each in made.protocols),
    )
    route = RouteSpec.model_validate(
        {"backends": {NAME: 1}, "aliases": [ALIAS], "consumers": ["guest"]}
    )
    proxy = Proxy(tmp_path_factory.mktemp("gateway"), public_routes={ROUTE: route})
    yield proxy.run(spec(), [here], {"team": consumer(keys=[1]), "guest": consumer(keys=[1])})
    proxy.stop()


def post(path: str, port: int, key: str, body: dict[str, Any]) -> Iterator[bytes]:
    """The answer's status, then the lines of its body as they come."""
    with closing(
        http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    ) as connection:
        connection.request(
            "POST",
            path,
            json.dumps(body),
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        answer = connection.getresponse()
        yield str(answer.status).encode()
        while line := answer.readline():
            yield line.strip()


def ask(
    gateway: Proxy, body: dict[str, Any], path: str = "completions"
) -> tuple[int, dict[str, Any]]:
    status, *lines = post(f"/{NAME}/v1/{path}", gateway.port, gateway.key("team"), body)
    return int(status), json.loads(b"".join(lines))


def test_the_paths_of_our_probes_answer_and_no_other_tells_who_has_no_key(server):
    container = container_of(MODEL)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server.status(container[probe]["httpGet"]["path"]) == 200
    assert server.status("/v1/models") == 401


def test_the_metrics_path_of_the_record_shows_the_model_by_its_name(server):
    with closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    ) as connection:
        connection.request("GET", endpoint(NAME, MODEL, KEY).metrics_path)
        text = connection.getresponse().read().decode()
    assert f'vllm:num_requests_running{{engine="0",model_name="{NAME}"}}' in text


def test_the_gateway_lists_the_model_and_its_adapter(gateway):
    answer = gateway.call("GET", f"/{NAME}/v1/models", gateway.key("team"))
    assert {each["id"] for each in json.loads(answer.body)["data"]} == {
        *endpoint(NAME, MODEL, KEY).served_names,
        ROUTE,
        ALIAS,
    }


def test_a_completion_comes_through_the_gateway_with_a_consumers_key_only(gateway):
    status, answer = ask(
        gateway, {"model": NAME, "prompt": "hello", "max_tokens": 8, "temperature": 0}
    )
    assert status == 200
    assert {"prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 13}.items() <= answer[
        "usage"
    ].items()
    assert gateway.call("POST", f"/{NAME}/v1/completions", body=b"{}").status == 401
    assert gateway.call("POST", f"/{NAME}/tokenize", gateway.key("team"), body=b"{}").status == 404


def test_an_adapter_answers_otherwise_than_the_model_that_it_belongs_to(gateway):
    asked = {"prompt": "hello", "max_tokens": 16, "temperature": 0, "ignore_eos": True}
    said = [
        ask(gateway, {"model": name, **asked})[1]["choices"][0]["text"] for name in (NAME, "polite")
    ]
    assert said[0] != said[1]


def test_a_chat_streams_through_the_gateway_piece_by_piece(gateway):
    body = {
        "model": NAME,
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 200,
        "ignore_eos": True,
        "stream": True,
    }
    status, *lines = post(f"/{NAME}/v1/chat/completions", gateway.port, gateway.key("team"), body)
    pieces = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]
    assert status == b"200"
    assert pieces[-1] == b"[DONE]"
    choices = [choice for piece in pieces[:-1] for choice in json.loads(piece)["choices"]]
    # How many tokens come in one piece depends on how busy the machine is.
    assert len([each for each in choices if each["delta"].get("content")]) > 1
    assert choices[-1]["finish_reason"] == "length"


def test_at_the_one_address_vllm_answers_to_the_names_of_its_route_and_to_its_own(gateway):
    def call(who: str, name: str, call: str = "chat/completions") -> tuple[int, dict[str, Any]]:
        messages = (
            {"messages": [{"role": "user", "content": "hi"}]}
            if call.startswith("chat")
            else {"prompt": "hi", "input": "hi"}
        )
        status, *lines = post(
            f"/v1/{call}",
            gateway.port,
            gateway.key(who),
            {"max_tokens": 4, **messages, "model": name},
        )
        return int(status), json.loads(b"".join(lines))

    # vLLM answers with the first of its names.
    for who, name, named in (
        ("guest", ROUTE, NAME),
        ("guest", ALIAS, NAME),
        ("team", NAME, NAME),
        ("team", "polite", "polite"),
    ):
        status, answer = call(who, name)
        assert (status, answer["model"], answer["usage"]["completion_tokens"]) == (
            200,
            named,
            4,
        ), answer
        listed = json.loads(gateway.call("GET", "/v1/models", gateway.key(who)).body)["data"]
        assert name in {each["id"] for each in listed}
    assert [
        call(who, name)[0] for who, name in (("guest", NAME), ("team", ROUTE), ("guest", "nothing"))
    ] == [404] * 3
    body = {
        "model": ROUTE,
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 8,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    status, *lines = post("/v1/chat/completions", gateway.port, gateway.key("guest"), body)
    *_, usage, done = [line for line in lines if line.startswith(b"data: ")]
    assert (status, done, json.loads(usage[6:])["usage"]["completion_tokens"]) == (
        b"200",
        b"data: [DONE]",
        8,
    )


def test_the_flags_that_arguments_are_checked_against_are_those_of_this_parser(environment):
    read = subprocess.run(
        [str(environment.python), "-c", READER],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert read.returncode == 0, read.stderr[-2000:]
    assert flags_of(json.loads(read.stdout.splitlines()[-1])) == FLAGS


def test_the_server_exposes_every_pinned_metric(server, gateway):
    body = json.dumps({"model": NAME, "prompt": "hello", "max_tokens": 4}).encode()
    assert (
        gateway.call(
            "POST",
            f"/{NAME}/v1/completions",
            gateway.key("team"),
            body,
            {"Content-Type": "application/json"},
        ).status
        == 200
    )
    assert missing_metrics("vllm", server.port) == []
    text = exposed("vllm", server.port)
    for name, bounds in engine_metrics("vllm")["bounds"].items():
        found = {
            float(each)
            for each in re.findall(rf'^{name}_bucket{{[^}}]*le="([0-9.e+-]+)"', text, re.MULTILINE)
        }
        assert found == set(bounds), name


# It ends the server of the tests above.
def test_a_stopping_server_finishes_the_answer_that_it_is_giving(server, gateway):
    body = {"model": NAME, "prompt": "hello", "max_tokens": 200, "ignore_eos": True, "stream": True}
    lines = post(f"/{NAME}/v1/completions", gateway.port, gateway.key("team"), body)
    assert next(lines) == b"200"
    assert next(lines).startswith(b"data: ")
    os.kill(server.process.pid, signal.SIGTERM)
    pieces = [line for line in lines if line.startswith(b"data: ")]
    assert pieces[-1] == b"data: [DONE]"
    assert server.process.wait(MODEL.drain_seconds) == 0


def test_the_pods_of_a_replica_over_two_nodes_join_and_answer(environment, models, tmp_path):
    """One process for each pod, on one machine; what the operator tells its pods is told to them."""
    wide = vllm(
        dtype="float32",
        maxModelLen=256,
        tensorParallelSize=2,
        nnodes=2,
        extraArgs=["--enforce-eager"],
        usageLog=True,
    )
    group = declared(wide, target=pool("nvidia-h100")).one(
        "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    )
    templates = group.inputs["spec"]["leaderWorkerTemplate"]
    started = [
        serve(
            environment,
            templates[kind]["spec"]["containers"][0],
            models=models,
            key="key",
            directory=tmp_path,
            told={"LWS_LEADER_ADDRESS": "127.0.0.1", "LWS_WORKER_INDEX": index},
        )
        for kind, index in (("leaderTemplate", "0"), ("workerTemplate", "1"))
    ]
    try:
        leader, worker = started
        leader.await_ready("/health", START_SECONDS)
        status, *lines = post(
            "/v1/completions",
            leader.port,
            "key",
            {"model": NAME, "prompt": "hello", "max_tokens": 8, "ignore_eos": True},
        )
        assert (int(status), json.loads(b"".join(lines))["usage"]["completion_tokens"]) == (200, 8)
        assert worker.process.poll() is None
        assert worker.status("/health") == 0
        counted = [each.log.read_text(errors="replace").count('{"usage":1') for each in started]
        assert counted == [1, 0]
    finally:
        for each in started:
            each.stop()
