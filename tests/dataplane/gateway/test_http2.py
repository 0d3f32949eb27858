"""HTTP/2 clients, as some ingress controllers are, meet the same lists: whatever they send, an
engine sees listed calls alone.
"""

from __future__ import annotations

import pytest

from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.engine_routes import ALLOWED
from tests.dataplane.gateway.http2 import REFUSED, Request, ask, request
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.dataplane.gateway.variants import variants
from tests.lanes import in_full


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """llama for `one` alone, mistral for `two` alone."""
    llama, mistral = Backend().start(), Backend().start()
    # nginx before 1.25.1 speaks either HTTP/1 or HTTP/2 on a clear-text port, so this stand listens
    # for HTTP/2 alone.
    proxy = Proxy(tmp_path_factory.mktemp("http2"), listen_options=" http2")
    consumers = {"one": consumer(keys=[1]), "two": consumer(keys=[1])}
    endpoints = [
        endpoint("llama", llama.port, ("one",)),
        endpoint("mistral", mistral.port, ("two",)),
    ]
    try:
        yield proxy.run(spec(), endpoints, consumers), llama, mistral
    finally:
        proxy.stop()
        llama.stop()
        mistral.stop()


@pytest.fixture
def apart(served):
    for backend in served[1:]:
        backend.seen.clear()
    return served


def _spelled(key, targets):
    bearer = () if key is None else (("authorization", f"Bearer {key}"),)
    for number, target in enumerate(targets):
        yield (
            request("GET", target, *bearer)
            if number % 2
            else request("POST", target, *bearer, body=b"{}")
        )


@pytest.mark.parametrize(("who", "own"), [("one", "llama"), ("two", "mistral"), (None, None)])
@pytest.mark.parametrize("count", [2_000, *in_full(10_000)])
def test_no_spelling_of_a_path_passes_over_http2_what_is_not_listed(apart, who, own, count):
    proxy, llama, mistral = apart
    targets = [each.encode("utf-8", "surrogateescape") for each in variants(count, seed=2)]
    statuses = ask(proxy.port, _spelled(None if who is None else proxy.key(who), targets))
    assert len(statuses) == len(set(targets)) == count
    if own is None:
        assert 401 in set(statuses) <= {REFUSED, 400, 401}
        assert not llama.seen
        assert not mistral.seen
        return
    mine, foreign = (llama, mistral) if own == "llama" else (mistral, llama)
    # Where nginx takes a path for a breach of the protocol, it may give no answer at all.
    assert {200, 404} <= set(statuses) <= {REFUSED, 200, 400, 404}
    assert not foreign.seen
    # Some spellings mean the listed path itself, as they should; a stand that refused all would
    # prove nothing.
    # The gateway itself answers /v1/models.
    assert len(mine.seen) <= statuses.count(200) <= len(mine.seen) + count / 200
    assert count / 200 < len(mine.seen) < count / 4
    assert {(each.method, each.target) for each in mine.seen} <= ALLOWED
    assert all(each.all("x-consumer") == [who] for each in mine.seen)


def _fields(*others, method=b"GET", path=b"/llama/v1/models"):
    return [
        (b":method", method),
        (b":scheme", b"http"),
        (b":authority", b"llm.test"),
        (b":path", path),
        *others,
    ]


def _tricks(good, other):
    """Each with the key of `one`, who may call llama alone; `other` is that of `two`, who may call
    mistral alone.
    """
    mine, theirs = (b"authorization", b"Bearer " + good), (b"authorization", b"Bearer " + other)
    hidden = (
        b"GET /mistral/v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
        + other
        + b"\r\n\r\n"
    )
    post = {"method": b"POST", "path": b"/llama/v1/completions"}
    return {
        "two keys": Request(_fields(mine, theirs)),
        "two keys, the other first": Request(_fields(theirs, mine)),
        "a key in each header": Request(_fields(mine, (b"x-api-key", other))),
        "two keys in x-api-key": Request(_fields((b"x-api-key", good), (b"x-api-key", other))),
        "a name in capitals": Request(
            _fields((b"Authorization", b"Bearer " + good), (b"X-Consumer", b"two"))
        ),
        "underscores": Request(_fields(mine, (b"x_consumer", b"two"), (b"x_api_key", other))),
        "claims": Request(
            _fields(
                mine,
                (b"x-consumer", b"two"),
                (b"x-forwarded-user", b"root"),
                (b"x-original-url", b"/mistral/v1/models"),
            )
        ),
        "two paths": Request(_fields((b":path", b"/mistral/v1/models"), mine)),
        "a path after the fields": Request([*_fields(mine), (b":path", b"/mistral/v1/models")]),
        "two methods": Request(_fields((b":method", b"POST"), mine)),
        "a field before the path": Request([mine, *_fields()]),
        "no path": Request(
            [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), mine]
        ),
        "an empty path": Request(_fields(mine, path=b"")),
        "a path without a slash": Request(_fields(mine, path=b"mistral/v1/models")),
        "a whole address": Request(_fields(mine, path=b"http://mistral/mistral/v1/models")),
        "an asterisk": Request(_fields(mine, path=b"*")),
        "a request in the path": Request(
            _fields(mine, path=b"/llama/v1/models HTTP/1.1\r\nHost: a\r\n\r\n" + hidden)
        ),
        "a request in the method": Request(_fields(mine, method=hidden + b"GET")),
        "a request in a value": Request(_fields(mine, (b"user-agent", b"a\r\n\r\n" + hidden))),
        "a request in a name": Request(_fields(mine, (b"user-agent: a\r\n\r\n" + hidden, b"b"))),
        "a line in a value that passes": Request(
            _fields(mine, (b"traceparent", b"a\r\nX-Consumer: two"))
        ),
        "a zero in a value that passes": Request(
            _fields(mine, (b"traceparent", b"a\x00X-Consumer: two"))
        ),
        "an unknown pseudo-field": Request(_fields((b":consumer", b"two"), mine)),
        "a host that contradicts": Request(_fields(mine, (b"host", b"mistral"))),
        "transfer-encoding": Request(
            _fields(mine, (b"transfer-encoding", b"chunked"), **post), b"0\r\n\r\n" + hidden
        ),
        "a length too short": Request(
            _fields(mine, (b"content-length", b"2"), **post), b"{}" + hidden
        ),
        "a length too long": Request(_fields(mine, (b"content-length", b"500"), **post), b"{}"),
        "no length": Request(_fields(mine, **post), hidden),
        "two lengths": Request(
            _fields(mine, (b"content-length", b"2"), (b"content-length", b"300"), **post), b"{}"
        ),
        "connection": Request(_fields(mine, (b"connection", b"x-consumer, authorization"))),
        "upgrade": Request(_fields(mine, (b"connection", b"upgrade"), (b"upgrade", b"h2c"))),
        "trailers": Request(_fields(mine, **post), b"{}", [(b"x-consumer", b"two"), theirs]),
        "a path in the trailers": Request(
            _fields(mine, **post), b"{}", [(b":path", b"/mistral/v1/models")]
        ),
        "a connection to elsewhere": Request(
            [(b":method", b"CONNECT"), (b":authority", b"127.0.0.1:1"), mine]
        ),
    }


@pytest.mark.parametrize("name", _tricks(b"", b""))
def test_fields_that_conflict_or_hide_a_request_open_nothing(apart, name):
    proxy, llama, mistral = apart
    one, two = proxy.key("one").encode(), proxy.key("two").encode()
    [status] = ask(proxy.port, [_tricks(one, two)[name]])
    # A server that was shown a second request would have it by the time that this one is answered.
    assert ask(proxy.port, [request("GET", b"/llama/v1/models", ("x-api-key", one.decode()))]) == [
        200
    ]
    assert status in (REFUSED, 200, 400, 401, 404, 405)
    assert not mistral.seen
    assert len(llama.seen) == 1 + (status == 200)
    for seen in llama.seen:
        assert (seen.method, seen.target) in ALLOWED
        assert seen.all("x-consumer") == ["one"]
        assert len(seen.all("authorization")) == 1
        assert one.decode() not in repr(seen.headers)
        assert two.decode() not in repr(seen.headers)
