"""Requests are limited by the client's address, which a trusted proxy states and no client can."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from inferplan.components.gateway import memory
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec, wait_for
from tests.dataplane.gateway.test_shares import Sink, status
from tests.patience import PATIENCE_SECONDS

CALLS = 6
TRUSTED = {"trustedProxies": ["127.0.0.2/32", "10.9.0.0/16"]}
DIRECT = {"host": None, "insecure": False, "exposure": "internal"}


@contextmanager
def gateway(folder: Path, **written: object) -> Iterator[tuple[Proxy, Sink]]:
    """A gateway of three consumers, where one address has at most CALLS calls."""
    sink, proxy = Sink(), Proxy(folder)
    names = ("one", "two", "three")
    try:
        proxy.run(
            spec(**written),
            [endpoint("llama", sink.port, names)],
            {name: consumer(keys=[1]) for name in names},
        )
        yield proxy, sink
    finally:
        proxy.stop()
        sink.stop()


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CALLS", CALLS)
    monkeypatch.setattr(memory, "share", lambda slots, _consumers: slots)


def call(
    proxy: Proxy, name: str, peer: str, states: tuple[str, ...] = (), *, path: str = "/v1"
) -> socket.socket:
    """A call that is answered at the end, from the address `peer`, with headers X-Forwarded-For."""
    text = json.dumps({"model": "llama", "hold": True})
    connection = socket.create_connection(
        ("127.0.0.1", proxy.port), PATIENCE_SECONDS, source_address=(peer, 0)
    )
    forwarded = "".join(f"X-Forwarded-For: {each}\r\n" for each in states)
    connection.sendall(
        f"POST {path}/chat/completions HTTP/1.1\r\nHost: a\r\n{forwarded}"
        f"Authorization: Bearer {proxy.key(name)}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\n\r\n{text}".encode()
    )
    return connection


# Where the calls of one client come from: the peer, and the X-Forwarded-For of each call. A list that differs from call to call is
# forged by the client, in front of what the proxy adds.
LIMITED = {
    "a client without a proxy": (DIRECT, "127.0.0.5", lambda _: ()),
    "a client without a proxy that states other addresses": (
        DIRECT,
        "127.0.0.5",
        lambda n: (f"198.51.100.{n}",),
    ),
    "a peer that is not trusted": (TRUSTED, "127.0.0.5", lambda n: (f"198.51.100.{n}",)),
    "a client behind the proxy": (TRUSTED, "127.0.0.2", lambda _: ("203.0.113.7",)),
    "behind the proxy, with addresses of its own in front": (
        TRUSTED,
        "127.0.0.2",
        lambda n: (f"198.51.100.{n}, 203.0.113.7",),
    ),
    "behind the proxy, with a header line of its own": (
        TRUSTED,
        "127.0.0.2",
        lambda n: (f"198.51.100.{n}", "203.0.113.7"),
    ),
    "behind two trusted proxies": (
        TRUSTED,
        "127.0.0.2",
        lambda n: (f"198.51.100.{n}, 203.0.113.7, 10.9.{n}.1",),
    ),
    "behind the proxy, stating that it is a proxy": (
        TRUSTED,
        "127.0.0.2",
        lambda n: (f"10.9.0.{n}, 203.0.113.7",),
    ),
}


@pytest.mark.parametrize(("written", "peer", "states"), LIMITED.values(), ids=LIMITED)
@pytest.mark.parametrize("path", ["/v1", "/llama/v1"])
def test_an_address_has_its_share_of_calls_with_all_its_keys(tmp_path, written, peer, states, path):
    with gateway(tmp_path, **written) as (proxy, sink), ExitStack() as stack:
        for n in range(CALLS):
            name = ("one", "two")[n % 2]
            stack.enter_context(closing(call(proxy, name, peer, states(n), path=path)))
        wait_for(lambda: sink.bodies == CALLS, "the share is in use")
        with closing(call(proxy, "three", peer, states(CALLS), path=path)) as more:
            assert status(more) == 429
        # Another client, of the same consumer, has its own share.
        other = "127.0.0.6" if peer == "127.0.0.5" else peer
        with closing(call(proxy, "three", other, ("203.0.113.8",), path=path)):
            wait_for(lambda: sink.bodies == CALLS + 1, "the other address is served")


@pytest.mark.parametrize(
    ("written", "peer"),
    [({}, "127.0.0.5"), (TRUSTED, "127.0.0.2")],
    ids=["an ingress that is not trusted", "a trusted proxy that states no client"],
)
def test_a_proxy_in_front_is_no_client(tmp_path, written, peer):
    with gateway(tmp_path, **written) as (proxy, sink), ExitStack() as stack:
        for n in range(CALLS + 4):
            stack.enter_context(closing(call(proxy, ("one", "two", "three")[n % 3], peer)))
        wait_for(lambda: sink.bodies == CALLS + 4, "all calls are served")


@pytest.mark.parametrize("every", ["0.0.0.0/0", "::/0"])
def test_a_stack_cannot_trust_every_address(every):
    with pytest.raises(ValidationError, match="would let every client state any address"):
        spec(trustedProxies=[every])
