"""Public routes through a real nginx: shares of requests, the header for testers, the fallback, and
rights of routes apart from models.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from inferplan.components.gateway import keys
from inferplan.components.gateway.route_spec import RouteSpec
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.stand import Answer, Proxy, consumer, endpoint, spec
from tests.dataplane.gateway.test_one_address import JSON
from tests.dataplane.gateway.test_requests import error
from tests.ports import free_port

PIN = "X-Inferplan-Backend"
ROUTES: dict[str, dict[str, object]] = {
    "chat-large": {
        "backends": {"llama": 4, "llama-next": 1, "mistral": 0},
        "aliases": ["gpt-4o", "org/Chat"],
        "consumers": ["chat"],
    },
    "safe": {"backends": {"stopped": 1, "broken": 0}, "fallback": "llama", "consumers": ["chat"]},
    "unsafe": {"backends": {"stopped": 1}, "consumers": ["chat"]},
}


def routes(**changed: dict[str, object]) -> dict[str, RouteSpec]:
    return {
        name: RouteSpec.model_validate(written) for name, written in {**ROUTES, **changed}.items()
    }


@dataclass(frozen=True)
class Stand:
    """`batch` may call the models llama and mistral by name, `chat` the routes alone. Nothing runs
    for `stopped`; `broken` breaks off.
    """

    proxy: Proxy
    backends: dict[str, Backend]
    endpoints: list
    consumers: dict

    def post(self, name: str, who: str = "chat", pin: str = "", **body: object) -> Answer:
        headers = {**JSON, PIN: pin} if pin else JSON
        return self.proxy.call(
            "POST",
            "/v1/chat/completions",
            self.proxy.key(who),
            json.dumps({"model": name, **body}).encode(),
            headers,
        )

    def seen(self) -> dict[str, int]:
        return {name: len(each.seen) for name, each in self.backends.items() if each.seen}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    backends = {name: Backend().start() for name in ("llama", "llama-next", "mistral", "broken")}
    proxy = Proxy(tmp_path_factory.mktemp("routes"), public_routes=routes())
    consumers = {"chat": consumer(keys=[1]), "batch": consumer(keys=[1])}
    rights = {"llama": ("batch",), "mistral": ("batch",)}
    endpoints = [endpoint(name, each.port, rights.get(name, ())) for name, each in backends.items()]
    endpoints.append(endpoint("stopped", free_port(), ()))
    try:
        yield Stand(proxy.run(spec(), endpoints, consumers), backends, endpoints, consumers)
    finally:
        proxy.stop()
        for each in backends.values():
            each.stop()


@pytest.fixture
def stand(served):
    for each in served.backends.values():
        each.seen.clear()
    return served


def test_requests_are_divided_by_weight_and_carry_the_key_of_their_server(stand):
    assert {stand.post("chat-large").status for _ in range(400)} == {200}
    seen = stand.seen()
    # 400 draws with a probability of a fifth: five standard deviations are 40.
    assert sum(seen.values()) == 400
    assert 40 < seen["llama-next"] < 120
    assert "mistral" not in seen
    for model in ("llama", "llama-next"):
        [sent] = {each.all("authorization")[0] for each in stand.backends[model].seen}
        assert sent == f"Bearer {keys.server_key(stand.proxy.seed, model)}"


@pytest.mark.parametrize("name", ["gpt-4o", "org/Chat"])
def test_an_alias_is_a_name_of_the_route(stand, name):
    assert stand.post(name).status == 200
    assert sum(stand.seen().values()) == 1


@pytest.mark.parametrize("model", ["llama", "llama-next", "mistral"])
def test_a_header_selects_one_model_of_the_route_also_one_without_a_share(stand, model):
    assert {stand.post("chat-large", pin=model).status for _ in range(10)} == {200}
    assert stand.seen() == {model: 10}
    assert all(not each.all(PIN.lower()) for each in stand.backends[model].seen)


@pytest.mark.parametrize(
    "model", ["stopped", "broken", "nothing", "chat-large", "llama,mistral", "unknown/"]
)
def test_a_header_selects_no_model_outside_of_the_route(stand, model):
    answer = stand.post("chat-large", pin=model)
    assert (answer.status, error(answer)["code"]) == (404, "not_found")
    assert not stand.seen()


def test_a_right_to_a_route_is_none_to_its_models_and_the_other_way_round(stand):
    assert stand.post("llama").status == 404
    assert stand.post("llama-next").status == 404
    assert stand.post("chat-large", "batch").status == 404
    assert stand.post("mistral", "batch", pin="llama").status == 200
    assert stand.seen() == {"mistral": 1}
    listed = {
        who: stand.proxy.call("GET", "/v1/models", stand.proxy.key(who)).body
        for who in ("chat", "batch")
    }
    ids = {who: [each["id"] for each in json.loads(body)["data"]] for who, body in listed.items()}
    assert ids == {
        "chat": ["chat-large", "gpt-4o", "org/Chat", "safe", "unsafe"],
        "batch": ["llama", "mistral"],
    }
    assert stand.proxy.call("GET", "/v1/models/gpt-4o", stand.proxy.key("chat")).status == 200
    assert stand.proxy.call("GET", "/v1/models/gpt-4o", stand.proxy.key("batch")).status == 404


def test_the_fallback_answers_while_no_replica_of_the_model_is_ready(stand):
    answer = stand.post("safe", text="x" * 50_000)
    assert answer.status == 200
    [seen] = stand.backends["llama"].seen
    assert json.loads(seen.body) == {"model": "safe", "text": "x" * 50_000}
    assert seen.all("authorization") == [f"Bearer {keys.server_key(stand.proxy.seed, 'llama')}"]
    line = next(
        each
        for each in map(json.loads, stand.proxy.access_log(answer).splitlines())
        if each["requestId"] == answer.headers["x-request-id"]
    )
    assert (line["name"], line["model"], line["upstreamStatus"]) == ("safe", "llama", "502 : 200")


def test_a_request_that_a_server_has_taken_is_not_sent_again(stand):
    # The server promises more bytes than it sends, so the client must not get another answer.
    with pytest.raises(Exception, match="IncompleteRead"):
        stand.post("safe", pin="broken", **{"break": True})
    assert stand.seen() == {"broken": 1}


def test_without_a_fallback_the_answer_is_an_error(stand):
    answer = stand.post("unsafe")
    assert (answer.status, error(answer)["code"], answer.headers["retry-after"]) == (
        502,
        "bad_gateway",
        "5",
    )


def test_a_route_has_its_own_path_too(stand):
    answer = stand.proxy.call(
        "POST", "/chat-large/v1/completions", stand.proxy.key("chat"), b"{}", {PIN: "llama-next"}
    )
    assert answer.status == 200
    assert stand.seen() == {"llama-next": 1}
    assert (
        stand.proxy.call(
            "POST", "/chat-large/v1/completions", stand.proxy.key("batch"), b"{}"
        ).status
        == 404
    )


def test_one_number_moves_every_request_and_moves_them_back(stand):
    for weights in ({"llama": 0, "llama-next": 1}, {"llama": 1, "llama-next": 0}):
        stand.proxy.public_routes = routes(
            **{"chat-large": {**ROUTES["chat-large"], "backends": weights}}
        )
        stand.proxy.reload(spec(), stand.endpoints, stand.consumers)
        for each in stand.backends.values():
            each.seen.clear()
        assert {stand.post("chat-large").status for _ in range(20)} == {200}
        assert stand.seen() == {max(weights, key=lambda name, of=weights: of[name]): 20}
    stand.proxy.public_routes = routes()
    stand.proxy.reload(spec(), stand.endpoints, stand.consumers)
