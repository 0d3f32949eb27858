"""A path in front of the models: calls below it reach the models without it, and calls without it
reach nothing.
"""

from __future__ import annotations

import pytest

from inferplan.components.handles import EndpointProtocol, ServeRoute
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    from dataclasses import replace

    backend = Backend().start()
    proxy = Proxy(tmp_path_factory.mktemp("prefix"))
    serve = endpoint(
        "app",
        backend.port,
        ("chat",),
        EndpointProtocol(kind="ray-serve", port=backend.port, path=""),
    )
    endpoints = [
        endpoint("llama", backend.port, ("chat",)),
        replace(serve, routes=(ServeRoute(prefix="/rag", methods=("POST",)),)),
    ]
    try:
        yield (
            proxy.run(
                spec(pathPrefix="/ai/v1.2"),
                endpoints,
                {"chat": consumer(keys=[1]), "other": consumer(keys=[1])},
            ),
            backend,
        )
    finally:
        proxy.stop()
        backend.stop()


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/ai/v1.2/llama/v1/chat/completions", "/v1/chat/completions"),
        ("/ai/v1.2/app/serve/rag/ask?x=1", "/rag/ask?x=1"),
    ],
)
def test_the_model_gets_the_path_without_the_prefix(stand, path, target):
    proxy, backend = stand
    backend.seen.clear()
    assert proxy.call("POST", path, proxy.key("chat"), b"{}").status == 200
    assert [each.target for each in backend.seen] == [target]


@pytest.mark.parametrize(
    "path",
    [
        "/llama/v1/chat/completions",
        "/ai/llama/v1/chat/completions",
        "/ai/v1x2/llama/v1/chat/completions",
        "/ai/v1.2/../llama/v1/models",
    ],
)
def test_no_other_path_reaches_a_model(stand, path):
    proxy, backend = stand
    backend.seen.clear()
    assert proxy.call("POST", path, proxy.key("chat"), b"{}").status == 404
    assert proxy.call("POST", "/ai/v1.2/llama/v1/chat/completions", None, b"{}").status == 401
    assert (
        proxy.call("POST", "/ai/v1.2/llama/v1/chat/completions", proxy.key("other"), b"{}").status
        == 404
    )
    assert backend.seen == []


def test_the_url_of_a_model_and_the_ingress_have_the_prefix():
    access = spec(pathPrefix="/ai/v1.2").access
    assert access.url("gateway") == "http://llm.test/ai/v1.2"
    assert spec().access.url("gateway") == "http://llm.test"
