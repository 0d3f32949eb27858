"""Every route of the engines at every kind of model, with every method and every kind of key: the
exact answer, and nothing beside it.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from inferplan.components.handles import EndpointProtocol
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.connection import Connection
from tests.dataplane.gateway.engine_routes import ALLOWED, METHODS, OTHERS, SERVED, TRITON_AND_RAY
from tests.dataplane.gateway.stand import LONG_AGO, Proxy, consumer, endpoint, spec

ROUTES = sorted({*SERVED.split(), *OTHERS.split(), *TRITON_AND_RAY.split()})
# What passes, by model, and what the model's server is then asked for; written out, not read from
# the code under test.
PASSES = {
    "llama": {(method, route): route for method, route in ALLOWED},
    "vision": {
        ("POST", route): route
        for route in (
            "/v2/models/llama/infer",
            "/v2/models/llama/versions/1/infer",
            "/v2/models/llama/generate",
            "/v2/models/llama/generate_stream",
        )
    }
    | {("GET", "/v2/models/llama"): "/v2/models/llama"},
    "app": {("POST", "/serve"): "/summarize", ("POST", "/serve/app"): "/summarize/app"},
}
KINDS = ("none", "wrong", "valid", "older but valid", "expired", "retired", "of another model")


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


def _expected(kind, model, method, route):
    if kind in ("none", "wrong", "expired", "retired"):
        return 401
    return 200 if kind != "of another model" and (method, route) in PASSES[model] else 404


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    mine, foreign = Backend().start(), Backend().start()
    proxy = Proxy(tmp_path_factory.mktemp("matrix"))
    consumers = {
        "chat": consumer(keys=[3, 2]),
        "other": consumer(keys=[1]),
        "former": consumer(keys=[1], expires={1: LONG_AGO.isoformat()}),
    }
    triton = (
        EndpointProtocol(kind="kserve-v2-http", port=mine.port, path="/v2"),
        EndpointProtocol(kind="triton-generate", port=mine.port, path="/v2"),
    )
    ray = EndpointProtocol(kind="ray-serve", port=mine.port, path="/summarize")
    endpoints = [
        endpoint("llama", mine.port, ("chat", "former")),
        endpoint("vision", mine.port, ("chat", "former"), *triton, served=("llama",)),
        endpoint("app", mine.port, ("chat", "former"), ray),
        endpoint("mistral", foreign.port, ("other",)),
    ]
    try:
        yield proxy.run(spec(), endpoints, consumers), mine, foreign
    finally:
        proxy.stop()
        mine.stop()
        foreign.stop()


@pytest.mark.parametrize("model", PASSES)
@pytest.mark.parametrize("kind", KINDS)
def test_each_route_and_method_gets_exactly_its_answer(served, kind, model):
    proxy, mine, foreign = served
    key = _keys(proxy)[kind]
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": f"Bearer {key}"} if key else {}
    )
    wrong = []
    with closing(Connection(proxy.port)) as connection:
        for route in ROUTES:
            for method in METHODS:
                mine.seen.clear()
                connection.request(
                    method,
                    f"/{model}{route}",
                    body=b"{}" if method in ("POST", "PUT", "PATCH") else None,
                    headers=headers,
                )
                response = connection.getresponse()
                response.read()
                expected = _expected(kind, model, method, route)
                reached = [(each.method, each.target) for each in mine.seen]
                if response.status != expected or reached != (
                    [(method, PASSES[model][method, route])] if expected == 200 else []
                ):
                    wrong.append((method, route, response.status, expected, reached))
    assert not wrong
    assert not foreign.seen


def test_the_matrix_holds_every_route_that_is_let_through():
    assert {route for passes in PASSES.values() for _, route in passes} <= set(ROUTES)
    assert len(ROUTES) >= 90


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "foo", "get"])
def test_a_method_that_no_api_uses_never_reaches_an_engine(served, method):
    proxy, mine, _ = served
    mine.seen.clear()
    target = "llama:80" if method == "CONNECT" else "/llama/v1/models"
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer"
        f" {proxy.key('chat', 3)}\r\nConnection: close\r\n\r\n"
    )
    status = int(proxy.raw(head.encode()).split()[1])
    assert status in (400, 404, 405)
    assert not mine.seen
