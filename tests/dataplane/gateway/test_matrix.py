"""Every route of the engines, with every method and every kind of key: the exact answer, and nothing at the engine beside it."""

from __future__ import annotations

import http.client
from contextlib import closing

import pytest

from tests.dataplane.gateway.engine_routes import ALLOWED, METHODS, OTHERS, SERVED, TRITON_AND_RAY

ROUTES = sorted({*SERVED.split(), *OTHERS.split(), *TRITON_AND_RAY.split()})


def _keys(proxy):
    return {
        "none": None,
        "wrong": proxy.key("chat", 3)[:-8] + "x" * 8,
        "valid": proxy.key("chat", 3),
        "older but valid": proxy.key("chat", 2),
        "expired": proxy.key("former", 1),
        "retired": proxy.key("chat", 1),
        "of another model": proxy.key("other"),
    }


def _expected(kind, method, route):
    if kind in ("none", "wrong", "expired", "retired"):
        return 401
    if kind == "of another model":
        return 403
    return 200 if (method, route) in ALLOWED else 404


@pytest.fixture(scope="module")
def only_others(tmp_path_factory):
    from tests.dataplane.gateway.backend import Backend
    from tests.dataplane.gateway.stand import LONG_AGO, Proxy, consumer, endpoint, spec

    llama, mistral = Backend().start(), Backend().start()
    proxy = Proxy(tmp_path_factory.mktemp("matrix"))
    consumers = {
        "chat": consumer(keys=[3, 2]),
        "other": consumer(keys=[1]),
        "former": consumer(keys=[1], expires={1: LONG_AGO.isoformat()}),
    }
    endpoints = [endpoint("llama", llama.port, ("chat", "former")), endpoint("mistral", mistral.port, ("other",))]
    try:
        yield proxy.run(spec(), endpoints, consumers), llama, mistral
    finally:
        proxy.stop()
        llama.stop()
        mistral.stop()


@pytest.mark.parametrize("kind", ["none", "wrong", "valid", "older but valid", "expired", "retired", "of another model"])
def test_each_route_and_method_gets_exactly_its_answer(only_others, kind):
    proxy, llama, mistral = only_others
    key = _keys(proxy)[kind]
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    wrong = []
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)) as connection:
        for route in ROUTES:
            for method in METHODS:
                llama.seen.clear()
                connection.request(method, f"/llama{route}", body=b"{}" if method in ("POST", "PUT", "PATCH") else None, headers=headers)
                response = connection.getresponse()
                response.read()
                expected = _expected(kind, method, route)
                reached = [(each.method, each.target) for each in llama.seen]
                if response.status != expected or reached != ([(method, route)] if expected == 200 else []):
                    wrong.append((method, route, response.status, expected, reached))
    assert not wrong
    assert not mistral.seen


def test_the_matrix_holds_every_route_that_is_let_through():
    assert {route for _, route in ALLOWED} <= set(ROUTES)
    assert len(ROUTES) >= 90


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "foo", "get"])
def test_a_method_that_no_api_uses_never_reaches_an_engine(only_others, method):
    proxy, llama, _ = only_others
    llama.seen.clear()
    target = "llama:80" if method == "CONNECT" else "/llama/v1/models"
    head = f"{method} {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {proxy.key('chat', 3)}\r\nConnection: close\r\n\r\n"
    status = int(proxy.raw(head.encode()).split()[1])
    assert status in (400, 404, 405)
    assert not llama.seen
