"""smg itself with the arguments of a model's router, in front of servers that need a key."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import closing

import pytest

from inferplan.components.router.spec import RouterSpec
from tests.dataplane.serving.openai_double import OpenAiDouble
from tests.dataplane.serving.router_stand import RouterProcess, router
from tests.patience import PATIENCE_SECONDS

KEY, NEXT = "sk-server", "sk-next"


@pytest.fixture
def doubles():
    made = [OpenAiDouble(KEY, NEXT) for _ in range(3)]
    yield made
    for each in made:
        each.go_on.set()
        each.stop()


def ask(running: RouterProcess, prompt: str, key: str = KEY, model: str = "chat", **more: object):
    """The status and the text of the answer to `prompt`."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": prompt}]}
    with closing(
        http.client.HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE_SECONDS)
    ) as connection:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps({**body, **more}), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_prompts_with_one_beginning_meet_one_server_in_both_routers(
    router_environment, doubles, tmp_path
):
    ports = [each.port for each in doubles]
    with (
        router(router_environment, tmp_path, ports, KEY) as one,
        router(router_environment, tmp_path, ports, KEY) as other,
    ):
        one.await_ready(KEY, 3)
        other.await_ready(KEY, 3)
        for number in range(12):
            beginning = f"{number} " * 600
            for running in (one, other, one):
                status, _ = ask(running, f"{beginning} question {number}", ignore_eos=True, top_k=3)
                assert status == 200
    met = {}
    for place, double in enumerate(doubles):
        for body in double.bodies:
            met.setdefault(body["messages"][0]["content"][:100], set()).add(place)
            # Fields that OpenAI does not have reach the server.
            assert (body["ignore_eos"], body["top_k"]) == (True, 3)
    assert len(met) == 12
    assert {len(places) for places in met.values()} == {1}
    assert len({place for places in met.values() for place in places}) > 1


def test_only_keys_of_the_gateway_and_names_of_the_model_pass(
    router_environment, doubles, tmp_path
):
    ports = [each.port for each in doubles]
    with router(router_environment, tmp_path, ports, KEY, NEXT) as running:
        running.await_ready(KEY, 3)
        assert ask(running, "hello", KEY)[0] == 200
        assert ask(running, "hello", NEXT)[0] == 200
        assert ask(running, "hello", "sk-other")[0] == 401
        assert ask(running, "hello", KEY, model="gpt-4o")[0] == 200
        # An adapter, which the servers list second, would have to reach them by its own name.
        assert ask(running, "hello", KEY, model="polite")[0] == 404
        assert ask(running, "hello", KEY, model="other")[0] == 404
        assert running.status("/liveness") == 200
    text = running.log.read_text()
    assert KEY not in text
    assert NEXT not in text


def test_a_lost_server_costs_no_later_call(router_environment, doubles, tmp_path):
    with router(router_environment, tmp_path, [each.port for each in doubles], KEY) as running:
        running.await_ready(KEY, 3)
        doubles[0].stop()
        answers = [ask(running, f"{number} " * 600)[0] for number in range(12)]
        assert answers == [200] * 12


def test_a_router_that_ends_finishes_its_streams(router_environment, doubles, tmp_path):
    for each in doubles:
        each.go_on.clear()
    with router(router_environment, tmp_path, [each.port for each in doubles], KEY) as running:
        running.await_ready(KEY, 3)
        answers = []
        caller = threading.Thread(target=lambda: answers.append(ask(running, "one two three")))
        caller.start()
        while not any(each.bodies for each in doubles):
            caller.join(0.05)
        running.process.terminate()
        # It takes no new call, so the gateway's next one goes to the model's Service.
        while running.status("/readiness") == 200:
            caller.join(0.05)
        assert caller.is_alive()
        for each in doubles:
            each.go_on.set()
        caller.join(PATIENCE_SECONDS)
        [(status, text)] = answers
        assert status == 200
        assert "[DONE]" in text


def test_without_a_server_the_router_is_not_ready(router_environment, tmp_path):
    spec = RouterSpec.model_validate({"policy": "cache_aware"})
    with router(router_environment, tmp_path, [], KEY, spec=spec) as running:
        while running.status("/liveness") != 200:
            assert running.process.poll() is None, running.log.read_text()
        assert running.status("/readiness") == 503
