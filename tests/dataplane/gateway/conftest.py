"""One proxy in front of two models for the tests that only send requests."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.stand import LONG_AGO, Proxy, consumer, endpoint, spec


@dataclass(frozen=True)
class Stand:
    """`llama` may be called by chat and batch, `mistral` by batch alone. Version 1 of `former` is
    past its last day.
    """

    proxy: Proxy
    llama: Backend
    mistral: Backend

    @property
    def backends(self) -> tuple[Backend, Backend]:
        return self.llama, self.mistral

    def forget(self) -> None:
        for backend in self.backends:
            backend.seen.clear()

    @property
    def seen(self):
        return [*self.llama.seen, *self.mistral.seen]


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    llama, mistral = Backend().start(), Backend().start()
    proxy = Proxy(tmp_path_factory.mktemp("gateway"))
    consumers = {
        "chat": consumer(keys=[3, 2]),
        "batch": consumer(keys=[1]),
        "former": consumer(keys=[1, 2], expires={1: LONG_AGO.isoformat()}),
    }
    endpoints = [
        endpoint("llama", llama.port, ("chat", "batch", "former")),
        endpoint("mistral", mistral.port, ("batch",)),
    ]
    cors = {"origins": ["https://chat.example", "http://localhost:3000"]}
    try:
        yield Stand(
            proxy.run(spec(cors=cors, maxBodySize="64Ki"), endpoints, consumers), llama, mistral
        )
    finally:
        proxy.stop()
        llama.stop()
        mistral.stop()


@pytest.fixture
def clean(stand):
    stand.forget()
    return stand
