"""Streams arrive as they are made, and trouble behind the gateway is told in the shape of the API.
Events decide, never the clock.
"""

from __future__ import annotations

import http.client
import json
import signal
import socket
from contextlib import closing

import pytest

from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.connection import Connection
from tests.dataplane.gateway.names import NameServer
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec, wait_for
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

CHAT = "/llama/v1/chat/completions"
CONSUMERS = {"chat": consumer(keys=[1])}


@pytest.fixture
def backend():
    backend = Backend().start()
    yield backend
    backend.stop()


@pytest.fixture
def proxy(tmp_path):
    proxy = Proxy(tmp_path)
    yield proxy
    proxy.stop()


def _open(proxy, body):
    connection = Connection(proxy.port)
    connection.request(
        "POST", CHAT, body=body, headers={"Authorization": f"Bearer {proxy.key('chat')}"}
    )
    return connection, connection.getresponse()


@pytest.mark.parametrize("until_closed", ["false", "true"])
def test_each_event_arrives_before_the_next_is_made(proxy, backend, until_closed):
    proxy.run(spec(), [endpoint("llama", backend.port, ("chat",))], CONSUMERS)
    connection, response = _open(
        proxy, f'{{"stream": true, "events": 20, "until_closed": {until_closed}}}'.encode()
    )
    with closing(connection):
        assert response.getheader("x-accel-buffering") == "no"
        for number in range(20):
            # The engine makes no further event before the permit: a proxy that collected would
            # leave us waiting here.
            assert response.readline() == f"data: {number}\n".encode()
            assert response.readline() == b"\n"
            backend.permits.put("next")
        assert response.read() == b""


def test_a_request_body_reaches_the_engine_while_it_is_sent(proxy):
    with closing(socket.create_server(("127.0.0.1", 0))) as engine:
        proxy.run(spec(), [endpoint("llama", engine.getsockname()[1], ("chat",))], CONSUMERS)
        head = (
            f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer"
            f" {proxy.key('chat')}\r\nContent-Length: 10\r\n\r\n"
        )
        with closing(
            socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_SECONDS)
        ) as client:
            client.sendall(head.encode() + b"first")
            engine.settimeout(PATIENCE_SECONDS)
            accepted, _ = engine.accept()
            with closing(accepted):
                accepted.settimeout(PATIENCE_SECONDS)
                received = b""
                while not received.endswith(b"first"):
                    received += accepted.recv(65536)
                client.sendall(b"later")
                assert accepted.recv(5) == b"later"


def test_an_engine_hears_that_its_client_has_gone(proxy):
    with closing(socket.create_server(("127.0.0.1", 0))) as engine:
        proxy.run(spec(), [endpoint("llama", engine.getsockname()[1], ("chat",))], CONSUMERS)
        head = (
            "GET /llama/v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer"
            f" {proxy.key('chat')}\r\n\r\n"
        )
        client = socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_SECONDS)
        client.sendall(head.encode())
        engine.settimeout(PATIENCE_SECONDS)
        accepted, _ = engine.accept()
        with closing(accepted):
            accepted.settimeout(PATIENCE_SECONDS)
            assert accepted.recv(65536)
            client.close()
            assert accepted.recv(65536) == b""


def test_a_client_that_reads_slowly_gets_the_whole_stream(proxy, backend):
    proxy.run(spec(), [endpoint("llama", backend.port, ("chat",))], CONSUMERS)
    for _ in range(2000):
        backend.permits.put("go on")
    connection, response = _open(proxy, b'{"stream": true, "events": 2000}')
    with closing(connection):
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        received = b""
        while part := response.read1(7):
            received += part
    assert received == b"".join(f"data: {number}\n\n".encode() for number in range(2000))


def test_a_dead_engine_is_a_bad_gateway(proxy):
    proxy.run(spec(), [endpoint("llama", free_port(), ("chat",))], CONSUMERS)
    answer = proxy.call("POST", CHAT, proxy.key("chat"), b"{}")
    assert answer.status == 502
    assert json.loads(answer.body)["error"]["code"] == "bad_gateway"
    assert answer.headers["retry-after"] == "5"


def test_trouble_behind_the_gateway_writes_no_query_string_to_a_log(proxy):
    proxy.run(spec(), [endpoint("llama", free_port(), ("chat",))], CONSUMERS)
    key = proxy.key("chat")
    answer = proxy.call("POST", f"{CHAT}?key={key}", key, b"{}")
    assert answer.status == 502
    assert "502" in proxy.access_log(answer)
    for log in ("access.log", "error.log"):
        assert key not in (proxy.directory / log).read_text()


def test_an_engine_that_stays_silent_is_a_gateway_timeout(proxy, backend):
    proxy.run(spec(readTimeoutSeconds=1), [endpoint("llama", backend.port, ("chat",))], CONSUMERS)
    answer = proxy.call("POST", CHAT, proxy.key("chat"), b'{"hold": true}')
    backend.permits.put("enough")
    assert answer.status == 504
    assert json.loads(answer.body)["error"]["code"] == "gateway_timeout"


def test_an_answer_that_breaks_off_is_seen_to_break_off(proxy, backend):
    proxy.run(spec(), [endpoint("llama", backend.port, ("chat",))], CONSUMERS)
    connection, response = _open(proxy, b'{"break": true}')
    with closing(connection), pytest.raises(http.client.IncompleteRead) as broken:
        response.read()
    assert broken.value.partial == b"data: cut\n\n"


def test_on_sigquit_running_streams_finish_and_no_new_request_is_taken(proxy, backend):
    proxy.run(spec(), [endpoint("llama", backend.port, ("chat",))], CONSUMERS)
    connection, response = _open(proxy, b'{"stream": true, "events": 3}')
    with closing(connection):
        assert response.readline() == b"data: 0\n"
        proxy.process.send_signal(signal.SIGQUIT)
        wait_for(proxy.refuses, "nobody listens any more")
        assert proxy.process.poll() is None
        for _ in range(3):
            backend.permits.put("next")
        assert response.read() == b"\ndata: 1\n\ndata: 2\n\n"
    assert proxy.process.wait(PATIENCE_SECONDS) == 0


def test_a_service_that_moves_is_followed_without_a_restart(tmp_path, proxy):
    """Two engines on one port, at 127.0.0.1 and 127.0.0.2: the name moves from the first to the
    second.
    """
    names, port = NameServer(), free_port()
    engines = [
        Backend(address=address, port=port).start() for address in ("127.0.0.1", "127.0.0.2")
    ]
    try:
        proxy.write(
            spec(), [endpoint("llama", engines[0].port, ("chat",), host="llama")], CONSUMERS
        )
        runtime = tmp_path / "runtime.conf"
        asked = names.socket.getsockname()[1]
        runtime.write_text(
            runtime.read_text().replace(
                "resolver 127.0.0.1 valid=10s;", f"resolver 127.0.0.1:{asked} valid=1s;"
            )
        )
        proxy.start()
        # nginx asks for the names of kept servers when it starts.
        wait_for(
            lambda: proxy.call("POST", CHAT, proxy.key("chat"), b"{}").status == 200,
            "the name is known",
        )
        assert len(engines[0].seen) == 1
        assert names.asked[0] == "llama.inference.svc.cluster.test"
        names.address = b"\x7f\x00\x00\x02"
        wait_for(
            lambda: (
                proxy.call("POST", CHAT, proxy.key("chat"), b"{}").status == 200 and engines[1].seen
            ),
            "the new address is used",
        )
    finally:
        names.stop()
        for engine in engines:
            engine.stop()


def test_a_name_that_does_not_resolve_stops_neither_the_start_nor_other_models(proxy, backend):
    names = NameServer()
    names.address = b""
    endpoints = [
        endpoint("llama", 8000, ("chat",), host="llama"),
        endpoint("other", backend.port, ("chat",)),
    ]
    proxy.write(spec(), endpoints, CONSUMERS)
    runtime = proxy.directory / "runtime.conf"
    runtime.write_text(
        runtime.read_text().replace(
            "resolver 127.0.0.1 ", f"resolver 127.0.0.1:{names.socket.getsockname()[1]} "
        )
    )
    proxy.start()
    assert proxy.call("POST", CHAT, proxy.key("chat"), b"{}").status == 502
    assert proxy.call("POST", "/other/v1/completions", proxy.key("chat"), b"{}").status == 200
    names.stop()
