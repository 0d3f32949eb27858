"""A budget of tokens through its whole way: the real programs of a server that ends requests as vLLM does,
of two gateway pods, and the nginx of one of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from urllib.request import urlopen

import pytest

from inferplan.components.gateway import keys
from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.serving.vllm.service import endpoint
from tests.dataplane.gateway.stand import SEED, Proxy, consumer, spec, wait_for
from tests.dataplane.gateway.test_one_address import JSON
from tests.dataplane.gateway.test_requests import error
from tests.dataplane.serving.vllm_stand import START_SECONDS, prepared, serve, weights
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port
from tests.unit.serving.models import KEY, container_of, vllm

PODS = str(files("inferplan.components.gateway") / "payload" / "budgets.py")
SERVER = str(files("inferplan.components.serving.vllm") / "payload" / "count_tokens.py")
STUB = str(Path(__file__).with_name("usage_stub.py"))
BUDGET = 500
CONSUMERS = {
    "team": consumer(keys=[1], limits={"tokensPerDay": BUDGET}),
    "other": consumer(keys=[1]),
}
MODEL = vllm(consumers=[*CONSUMERS], usageLog=True)


@contextmanager
def program(command: list[str], **variables: str):
    process = subprocess.Popen(
        [sys.executable, *command], env={**os.environ, **variables}, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def pod(folder: Path, port: int, ports: tuple[int, ...]):
    """The program of one gateway pod, which knows the `ports` of all."""
    folder.mkdir(exist_ok=True)
    return program(
        [PODS],
        BUDGETS=json.dumps({"team": BUDGET}),
        FOLDER=str(folder),
        SERVICE=_service(ports),
        LISTEN=f"127.0.0.1:{port}",
    )


def _service(ports: tuple[int, ...]) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports)


def sums(port: int) -> dict:
    try:
        with urlopen(f"http://127.0.0.1:{port}/", b"{}", timeout=PATIENCE_SECONDS) as answer:
            return json.loads(answer.read())
    except OSError:
        return {"": {"": {"team": -1}}}


def used(port: int) -> int:
    return sum(own.get("team", 0) for day in sums(port).values() for own in day.values())


@pytest.fixture
def stand(tmp_path):
    ports, serving = (free_port(), free_port()), free_port()
    made = endpoint("chat", MODEL, KEY)
    local = tuple(replace(each, port=serving) for each in made.protocols)
    proxy = Proxy(tmp_path)
    with ExitStack() as running:
        running.callback(proxy.stop)
        server = running.enter_context(
            program([STUB, str(serving), SERVER, "chat", "polite"], TOKEN_BUDGETS=_service(ports))
        )
        assert server.stdout is not None
        while server.stdout.readline() != b"listens\n":
            assert server.poll() is None
        proxy.run(spec(), [replace(made, host="127.0.0.1", protocols=local)], CONSUMERS)
        yield proxy, ports


def call(proxy: Proxy, who: str, tokens: int, **more: object):
    body = {"model": "chat", "prompt": "x" * 20, "max_tokens": tokens, **more}
    return proxy.call("POST", "/v1/completions", proxy.key(who), json.dumps(body).encode(), JSON)


def test_a_spent_budget_denies_calls_until_the_next_day(stand, tmp_path):
    proxy, (first, second) = stand
    ports, marks = (first, second), tmp_path / "budgets"
    with pod(tmp_path / "other", second, ports):
        with pod(marks, first, ports):
            assert call(proxy, "other", 400).status == 200
            # A prompt counts once for its two answers; a stream counts without being asked.
            assert call(proxy, "team", 100, n=2).status == 200
            assert call(proxy, "team", 80, stream=True).status == 200
            wait_for(lambda: used(first) == used(second) == 320, "both pods have all tokens")
            assert not [*marks.iterdir()]
        # The other pod counts while this one is away, and gives it all sums when it is back.
        assert call(proxy, "team", 180).status == 200
        wait_for(lambda: used(second) == 520, "the other pod has all tokens")
        with pod(marks, first, ports):
            wait_for(lambda: call(proxy, "team", 1).status == 429, "the gateway denies")
            answer = call(proxy, "team", 1)
            now = datetime.now(UTC)
            left = 86400 - 3600 * now.hour - 60 * now.minute - now.second
            assert left - 60 <= int(answer.headers["retry-after"]) <= left + 660
            assert error(answer)["code"] == "token_budget_exceeded"
            assert "The budget resets at 00:00 UTC" in error(answer)["message"]
            path = "/chat/v1/completions"
            assert proxy.call("POST", path, proxy.key("team"), b"{}", JSON).status == 429
            assert proxy.call("GET", "/v1/models", proxy.key("team")).status == 200
            assert call(proxy, "other", 1).status == 200
    # The mark of another day denies nothing.
    [file] = marks.iterdir()
    file.rename(marks / "team.2026-11-01")
    assert call(proxy, "team", 1).status == 200


@pytest.mark.parametrize(
    "body",
    [
        *("", "[]", "3", '{"2099-01-01": []}', '{"2099-01-01": {"a": 3}}'),
        '{"2099-01-01": {"a": {"team": -1}}}',
        '{"2099-01-01": {"a": {"team": 1.5}}}',
    ],
)
def test_what_is_no_sum_changes_nothing(tmp_path, body):
    port = free_port()
    with pod(tmp_path / "marks", port, (port,)):
        wait_for(lambda: used(port) == 0, "the program answers")
        with pytest.raises(OSError, match="400"):
            urlopen(f"http://127.0.0.1:{port}/", body.encode(), timeout=PATIENCE_SECONDS)
        assert sums(port) == {}


def test_a_day_that_has_passed_and_a_consumer_without_a_budget_are_not_kept(tmp_path):
    port = free_port()
    with pod(tmp_path / "marks", port, (port,)):
        wait_for(lambda: used(port) == 0, "the program answers")
        days = {"2026-11-01": {"a": {"team": 9}}, "2099-01-01": {"a": {"team": 2, "who": 3}}}
        urlopen(f"http://127.0.0.1:{port}/", json.dumps(days).encode(), timeout=PATIENCE_SECONDS)
        assert sums(port) == {"2099-01-01": {"a": {"team": 2}}}


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_vllm_itself_counts_for_the_budget_of_an_adapters_consumer(vllm_environment, tmp_path):
    """`team` may call the adapter alone and `other` the model alone, before a real vLLM."""
    ports, marks = (free_port(),), tmp_path / "budgets"
    spec_of_model = vllm(
        dtype="float32", maxModelLen=256, maxNumSeqs=16, extraArgs=["--enforce-eager"],
        consumers=["other"], loraAdapters={"polite": "adapters/polite"}, maxLoraRank=8,
        loraConsumers={"polite": ["team"]}, usageLog=True,
    )  # fmt: skip
    environment = prepared(vllm_environment)
    weights(environment, tmp_path / "chat")
    container = container_of(spec_of_model, counts_tokens=True)
    for variable in container["env"]:
        if variable["name"] == "TOKEN_BUDGETS":
            variable["value"] = _service(ports)
    made = endpoint("chat", spec_of_model, KEY)
    adapter = RouteSpec(backends={"chat": 1}, consumers=["team"])
    with ExitStack() as running:
        key = keys.server_key(SEED, "chat")
        server = serve(environment, container, models=tmp_path, key=key, directory=tmp_path)
        running.callback(server.stop)
        running.enter_context(pod(marks, ports[0], ports))
        server.await_ready("/health", START_SECONDS)
        (tmp_path / "gateway").mkdir()
        proxy = Proxy(tmp_path / "gateway", public_routes={"polite": adapter})
        object.__setattr__(proxy.layout, "budgets", str(marks))
        running.callback(proxy.stop)
        local = tuple(replace(each, port=server.port) for each in made.protocols)
        proxy.run(spec(), [replace(made, host="127.0.0.1", protocols=local)], CONSUMERS)
        fixed = {"ignore_eos": True, "prompt": "x" * 20}
        assert call(proxy, "other", 5, **fixed).status == 200
        assert call(proxy, "other", 5, model="polite", **fixed).status == 404
        assert call(proxy, "team", 5, **fixed).status == 404
        assert call(proxy, "team", 100, model="polite", n=2, **fixed).status == 200
        assert call(proxy, "team", 100, model="polite", stream=True, **fixed).status == 200
        # A token of this model is a byte; a prompt may begin with one more.
        wait_for(lambda: 340 <= used(ports[0]) <= 342, "the pod has the tokens of the adapter")
        assert call(proxy, "team", 180, model="polite", **fixed).status == 200
        wait_for(lambda: call(proxy, "team", 1, model="polite").status == 429, "the end of it")
        assert call(proxy, "other", 1, **fixed).status == 200
