"""Rights of consumers by adapter, of a stack file through a real nginx: `base` may call the model alone,
`law` one adapter alone, `both` everything, and no other way leads to an adapter.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.contract import contract_of
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.stand import Proxy, spec
from tests.dataplane.gateway.test_one_address import JSON
from tests.unit.stackfile.test_checks import CONFIG, MODEL

MODELS = {
    "llama": {
        **MODEL,
        "consumers": ["base", "both"],
        "loraAdapters": {"Contract.v2": "adapters/contract", "default": "adapters/default"},
        "loraConsumers": {"Contract.v2": ["law", "both"], "default": ["both"]},
    },
    "plain": {**MODEL, "consumers": ["base"]},
}
NAMES = ("llama", "Contract.v2", "default", "plain")
RIGHTS = {
    "base": {"llama", "plain"},
    "law": {"Contract.v2"},
    "both": {"llama", "Contract.v2", "default"},
}


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    consumers = {name: {"keys": [1]} for name in RIGHTS}
    config = {**CONFIG, "models": MODELS, "consumers": consumers}
    path = folder / "Pulumi.test.yaml"
    path.write_text(
        json.dumps({"config": {f"inferplan:{key}": each for key, each in config.items()}})
    )
    settings = validate(read_stack(path))
    backends = {name: Backend().start() for name in MODELS}
    proxy = Proxy(folder, public_routes=settings.public_routes)
    endpoints = [
        replace(
            each,
            host="127.0.0.1",
            protocols=tuple(replace(way, port=backends[name].port) for way in each.protocols),
        )
        for name, each in contract_of(settings).endpoints.items()
    ]
    try:
        yield proxy.run(spec(), endpoints, settings.consumers), backends
    finally:
        proxy.stop()
        for each in backends.values():
            each.stop()


def body(name: str) -> bytes:
    return json.dumps({"model": name, "messages": []}).encode()


@pytest.mark.parametrize("who", sorted(RIGHTS))
def test_each_consumer_calls_what_it_may_and_sees_no_more(stand, who):
    proxy, backends = stand
    for each in backends.values():
        each.seen.clear()
    answers = {
        name: proxy.call("POST", "/v1/chat/completions", proxy.key(who), body(name), JSON).status
        for name in NAMES
    }
    assert answers == {name: 200 if name in RIGHTS[who] else 404 for name in NAMES}
    seen = [json.loads(each.body)["model"] for own in backends.values() for each in own.seen]
    assert sorted(seen) == sorted(RIGHTS[who])
    listed = json.loads(proxy.call("GET", "/v1/models", proxy.key(who)).body)["data"]
    assert {each["id"] for each in listed} == RIGHTS[who]


@pytest.mark.parametrize("name", ["llama", "Contract.v2", "default"])
@pytest.mark.parametrize("who", ["base", "both", "law"])
def test_the_path_of_the_model_leads_to_no_name(stand, who, name):
    proxy, backends = stand
    backends["llama"].seen.clear()
    for path in ("/llama/v1/chat/completions", "/Contract.v2/v1/chat/completions"):
        assert proxy.call("POST", path, proxy.key(who), body(name), JSON).status == 404
    assert proxy.call("GET", "/llama/v1/models", proxy.key(who)).status == 404
    assert not backends["llama"].seen


def test_another_model_keeps_its_path(stand):
    proxy, backends = stand
    backends["plain"].seen.clear()
    answer = proxy.call("POST", "/plain/v1/chat/completions", proxy.key("base"), body("x"), JSON)
    assert (answer.status, len(backends["plain"].seen)) == (200, 1)
