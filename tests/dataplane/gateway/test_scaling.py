"""Models that scale: an answer while a model starts, requests that wait for it, and the counts that
a scaler reads.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import threading
import time
from contextlib import ExitStack, closing

import pytest

from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.handles import EndpointProtocol
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.connection import Connection
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec, wait_for
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

CHAT, INFER = "/llama/v1/chat/completions", "/llama/v2/models/llama/infer"
CONSUMERS = {"chat": consumer(keys=[1])}


def asleep(port: int, *, counted: bool = False):
    """A model that may have no replica, and of which one starts in 382 s."""
    protocols = (
        EndpointProtocol(kind="openai", port=port, path="/v1"),
        EndpointProtocol(kind="kserve-v2-http", port=port, path=""),
    )
    return dataclasses.replace(
        endpoint("llama", port, ("chat",), *protocols), start_seconds=382, counted=counted
    )


@pytest.fixture
def proxy(tmp_path):
    made = Proxy(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def scripted(proxy):
    """A proxy whose nginx has the JavaScript module (0.8 or newer, for shared counters), as the
    default image has.
    """
    probe = proxy.directory / "probe.conf"
    load = f"load_module {proxy.layout.js_module};\n" if proxy.layout.js_module else ""
    probe.write_text(
        f"{load}pid {proxy.directory}/p;\nevents {{}}\nhttp {{"
        " js_shared_dict_zone zone=a:32k type=number; }\n"
    )
    command = [proxy.binary, "-t", "-q", "-c", str(probe), "-g", "error_log stderr crit;"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    if done.returncode:
        pytest.skip(
            "nginx has no JavaScript module with shared counters; set INFERPLAN_NJS_MODULE to one"
            f" ({done.stderr.strip()[:200]})"
        )
    return proxy


def metrics(proxy: Proxy) -> dict[str, float]:
    with closing(Connection(proxy.status_port)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return {
        name: float(value)
        for name, value in (line.split() for line in lines if not line.startswith("#"))
    }


REQUESTS, IN_FLIGHT = (
    f'inferplan_gateway_requests_{name}{{model="llama"}}' for name in ("total", "in_flight")
)


def test_a_model_without_replicas_answers_503_with_the_time_of_a_start(proxy):
    proxy.run(spec(), [asleep(free_port())], CONSUMERS)
    answer = proxy.call("POST", CHAT, proxy.key("chat"), b"{}")
    assert (answer.status, answer.headers["retry-after"]) == (503, "30")
    assert answer.headers["content-type"] == "application/json"
    assert "x-request-id" in answer.headers
    assert json.loads(answer.body) == {
        "error": {
            "message": "no replica of llama is ready; a start takes about 382 seconds",
            "type": "server_error",
            "param": None,
            "code": "model_starting",
        }
    }
    # KServe's protocol has an error of text (Triton's clients show it).
    assert json.loads(proxy.call("POST", INFER, proxy.key("chat"), b"{}").body)["error"].startswith(
        "no replica of llama is ready"
    )


def test_a_model_with_a_minimum_of_one_answers_502_as_before(proxy):
    proxy.run(spec(), [endpoint("llama", free_port(), ("chat",))], CONSUMERS)
    assert proxy.call("POST", CHAT, proxy.key("chat"), b"{}").status == 502


def test_a_server_that_fails_after_it_took_the_request_is_not_starting(proxy):
    backend = Backend().start()
    proxy.run(spec(), [asleep(backend.port)], CONSUMERS)
    try:
        assert proxy.call("POST", CHAT, proxy.key("chat"), b"{}").status == 200
        with closing(Connection(proxy.port)) as connection:
            connection.request(
                "POST",
                CHAT,
                body=b'{"break": true}',
                headers={"Authorization": f"Bearer {proxy.key('chat')}"},
            )
            assert connection.getresponse().status != 503
    finally:
        backend.stop()


def test_requests_are_counted_also_while_nothing_runs(scripted):
    scripted.run(spec(), [asleep(free_port(), counted=True)], CONSUMERS)
    assert metrics(scripted) == {REQUESTS: 0, IN_FLIGHT: 0}
    for _ in range(3):
        assert scripted.call("POST", CHAT, scripted.key("chat"), b"{}").status == 503
    assert scripted.call("POST", CHAT, "no-key", b"{}").status == 401
    wait_for(
        lambda: metrics(scripted) == {REQUESTS: 3, IN_FLIGHT: 0},
        "the counters have the three requests",
    )


def test_a_request_is_in_flight_until_its_answer_ends(scripted):
    backend = Backend().start()
    scripted.run(
        spec(),
        [dataclasses.replace(endpoint("llama", backend.port, ("chat",)), counted=True)],
        CONSUMERS,
    )
    answers = []
    call = threading.Thread(
        target=lambda: answers.append(
            scripted.call("POST", CHAT, scripted.key("chat"), b'{"hold": true}')
        )
    )
    try:
        call.start()
        assert backend.holding.wait(PATIENCE_SECONDS)
        assert metrics(scripted) == {REQUESTS: 1, IN_FLIGHT: 1}
        backend.permits.put("go")
        call.join(PATIENCE_SECONDS)
        assert answers[0].status == 200
        wait_for(
            lambda: metrics(scripted) == {REQUESTS: 1, IN_FLIGHT: 0}, "no request is in flight"
        )
    finally:
        backend.stop()


def test_a_request_waits_for_the_start_and_arrives_whole(scripted):
    port = free_port()
    scripted.run(spec(startWaitSeconds=60), [asleep(port, counted=True)], CONSUMERS)
    body = json.dumps({"prompt": "x" * 300_000}).encode()
    answers = []
    call = threading.Thread(
        target=lambda: answers.append(scripted.call("POST", CHAT, scripted.key("chat"), body))
    )
    call.start()
    wait_for(lambda: metrics(scripted)[IN_FLIGHT] == 1, "the request waits, and the scaler sees it")
    backend = Backend(port=port).start()
    try:
        call.join(PATIENCE_SECONDS)
        assert answers[0].status == 200
        assert [each.body for each in backend.seen if each.method == "POST"] == [body]
    finally:
        backend.stop()


def denied_at_once(proxy: Proxy, body: bytes, headers: dict[str, str]) -> None:
    start = time.monotonic()
    answer = proxy.call("POST", CHAT, proxy.key("chat"), body, headers)
    assert (answer.status, answer.headers["retry-after"]) == (503, "30")
    # A request that waits gets the same answer after 60 s.
    assert time.monotonic() - start < 30


def test_a_pod_holds_64_requests_and_answers_others_at_once(scripted):
    scripted.run(spec(startWaitSeconds=60), [asleep(free_port(), counted=True)], CONSUMERS)
    with ExitStack() as stack:
        for _ in range(64):
            held = stack.enter_context(closing(Connection(scripted.port)))
            held.request(
                "POST",
                CHAT,
                body=b"{}",
                headers={"Authorization": f"Bearer {scripted.key('chat')}"},
            )
        wait_for(lambda: metrics(scripted)[IN_FLIGHT] == 64, "64 requests wait")
        denied_at_once(scripted, b"{}", {})


@pytest.mark.parametrize(
    "headers", [{}, {"Transfer-Encoding": "chunked"}], ids=["large", "chunked"]
)
def test_a_body_that_is_large_or_of_unknown_size_does_not_wait(scripted, headers):
    scripted.run(spec(startWaitSeconds=60), [asleep(free_port(), counted=True)], CONSUMERS)
    body = b"2\r\n{}\r\n0\r\n\r\n" if headers else b"x" * (2**20 + 1)
    denied_at_once(scripted, body, headers)


def test_a_request_beyond_the_limits_of_its_consumer_is_not_counted(scripted):
    limited = {"chat": consumer(keys=[1], limits={"requestsPerMinute": 1, "burst": 1})}
    scripted.run(spec(), [asleep(free_port(), counted=True)], limited)
    statuses = [scripted.call("POST", CHAT, scripted.key("chat"), b"{}").status for _ in range(5)]
    assert statuses[-1] == 429
    wait_for(
        lambda: metrics(scripted) == {REQUESTS: statuses.count(503), IN_FLIGHT: 0},
        "the answered requests are counted",
    )


@pytest.mark.full
def test_a_wait_ends_with_503(scripted):
    scripted.run(spec(startWaitSeconds=1), [asleep(free_port(), counted=True)], CONSUMERS)
    answer = scripted.call("POST", CHAT, scripted.key("chat"), b"{}")
    assert (answer.status, answer.headers["retry-after"]) == (503, "30")


def test_a_request_at_v1_waits_for_the_start_like_one_at_the_model_s_own_address(scripted):
    port = free_port()
    scripted.run(spec(startWaitSeconds=60), [asleep(port, counted=True)], CONSUMERS)
    body = json.dumps({"prompt": "x" * 300_000, "model": "llama"}).encode()
    answers = []
    call = threading.Thread(
        target=lambda: answers.append(
            scripted.call(
                "POST",
                "/v1/chat/completions",
                scripted.key("chat"),
                body,
                {"Content-Type": "application/json"},
            )
        )
    )
    call.start()
    wait_for(lambda: metrics(scripted)[IN_FLIGHT] == 1, "the request waits, and the scaler sees it")
    backend = Backend(port=port).start()
    try:
        call.join(PATIENCE_SECONDS)
        assert answers[0].status == 200
        assert [each.body for each in backend.seen if each.method == "POST"] == [body]
        wait_for(
            lambda: metrics(scripted) == {REQUESTS: 1, IN_FLIGHT: 0}, "no request is in flight"
        )
    finally:
        backend.stop()


def test_a_request_that_the_fallback_of_a_route_answers_is_no_longer_in_flight(scripted):
    backend = Backend().start()
    route = RouteSpec.model_validate(
        {"backends": {"llama": 1}, "fallback": "other", "consumers": ["chat"]}
    )
    scripted.public_routes = {"chat-large": route}
    try:
        scripted.run(
            spec(startWaitSeconds=60),
            [asleep(free_port(), counted=True), endpoint("other", backend.port, ())],
            CONSUMERS,
        )
        body, headers = b'{"model":"chat-large"}', {"Content-Type": "application/json"}
        # The fallback comes before the wait for a start.
        assert (
            scripted.call("POST", "/v1/completions", scripted.key("chat"), body, headers).status
            == 200
        )
        assert len(backend.seen) == 1
        wait_for(
            lambda: metrics(scripted) == {REQUESTS: 1, IN_FLIGHT: 0},
            "the scaler sees the request, and its end",
        )
    finally:
        backend.stop()


def test_a_model_without_replicas_answers_503_at_v1_too(proxy):
    proxy.run(spec(), [asleep(free_port())], CONSUMERS)
    answer = proxy.call(
        "POST",
        "/v1/chat/completions",
        proxy.key("chat"),
        b'{"model":"llama"}',
        {"Content-Type": "application/json"},
    )
    assert (
        answer.status,
        answer.headers["retry-after"],
        json.loads(answer.body)["error"]["code"],
    ) == (503, "30", "model_starting")
