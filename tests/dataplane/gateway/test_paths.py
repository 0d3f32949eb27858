"""No spelling of a path and no pair of headers gets past the lists: what an engine sees is always
one of the few listed calls.
"""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.engine_routes import ALLOWED
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.dataplane.gateway.variants import HEADER_TRICKS, variants
from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS


class Line:
    """A connection kept open as long as the proxy does; sends bytes and reads one answer."""

    def __init__(self, port):
        self.port = port
        self.socket = None

    def ask(self, request):
        for _ in range(2):
            try:
                return self._ask(request)
            except (ConnectionError, TimeoutError):
                self.close()
        raise AssertionError(f"no answer to {request!r}")

    def _ask(self, request):
        if self.socket is None:
            self.socket = socket.create_connection(
                ("127.0.0.1", self.port), timeout=PATIENCE_SECONDS
            )
            self.reader = self.socket.makefile("rb")
        self.socket.sendall(request)
        line = self.reader.readline()
        if not line:
            raise ConnectionResetError
        headers = {}
        while (field := self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = field.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        self.body = self.reader.read(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return int(line.split()[1])

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """llama for `one` alone, mistral for `two` alone."""
    llama, mistral = Backend().start(), Backend().start()
    proxy = Proxy(tmp_path_factory.mktemp("paths"))
    consumers = {"one": consumer(keys=[1]), "two": consumer(keys=[1])}
    try:
        yield (
            proxy.run(
                spec(),
                [
                    endpoint("llama", llama.port, ("one",)),
                    endpoint("mistral", mistral.port, ("two",)),
                ],
                consumers,
            ),
            llama,
            mistral,
        )
    finally:
        proxy.stop()
        llama.stop()
        mistral.stop()


@pytest.fixture
def apart(served):
    for backend in served[1:]:
        backend.seen.clear()
    return served


def _request(method, target, key):
    auth = f"Authorization: Bearer {key}\r\n" if key else ""
    body = "Content-Length: 2\r\n\r\n{}" if method == "POST" else "\r\n"
    return f"{method} {target} HTTP/1.1\r\nHost: llm.test\r\n{auth}{body}".encode(
        "utf-8", "surrogateescape"
    )


@pytest.mark.parametrize("count", [2_000, *in_full(10_000)])
def test_no_spelling_of_a_path_passes_what_is_not_listed(apart, count):
    proxy, llama, mistral = apart
    ways = [("one", llama, mistral), ("two", mistral, llama), (None, llama, mistral)]
    line = Line(proxy.port)
    passed = 0
    for number, target in enumerate(variants(count)):
        method = "GET" if number % 2 else "POST"
        for who, own, foreign in ways:
            llama.seen.clear()
            mistral.seen.clear()
            status = line.ask(_request(method, target, proxy.key(who) if who else None))
            assert not foreign.seen, (who, target)
            # 400 is nginx's own answer to what is no HTTP at all; it comes before any of our rules.
            assert status in ((200, 400, 404) if who else (400, 401)), (who, target)
            # The gateway itself answers /v1/models, with the names that this key may call.
            listed = status == 200 and b'"object":"list"' in line.body
            assert not listed or line.body.count(b'"id"') == 1, (who, target)
            assert len(own.seen) == (status == 200 and not listed), (who, target)
            passed += len(own.seen)
            for each in own.seen:
                assert (each.method, each.target) in ALLOWED, target
                assert each.all("x-consumer") == [who], target
    line.close()
    # Some spellings mean the listed path itself, as they should; a stand that refused all would
    # prove nothing.
    assert count / 50 < passed < count / 4


@pytest.mark.parametrize("tricks", HEADER_TRICKS, ids=" + ".join)
@pytest.mark.parametrize("path", ["/llama/v1/models", "/mistral/v1/models"])
def test_conflicting_headers_give_no_right_that_one_key_alone_has_not(apart, tricks, path):
    proxy, llama, mistral = apart
    headers = "\r\n".join(tricks).format(good=proxy.key("one"), other=proxy.key("two"))
    request = (
        f"GET {path} HTTP/1.1\r\nHost: llm.test\r\n{headers}\r\nConnection: close\r\n\r\n".encode()
    )
    with closing(
        socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_SECONDS)
    ) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    # Whoever ends his side gets no answer to what is under way, though the engine does: it has that
    # by the time that a later call is answered.
    for model, who in (("llama", "one"), ("mistral", "two")):
        assert (
            proxy.call("POST", f"/{model}/v1/completions", proxy.key(who), b"the last one").status
            == 200
        )
    statuses = {
        int(each.split()[0]) for each in answer.split(b"HTTP/1.1 ")[1:] if each[:3].isdigit()
    } - {100}
    assert statuses <= {200, 400, 401, 404, 405, 501}
    for backend, owner, key in (
        (llama, "one", proxy.key("one")),
        (mistral, "two", proxy.key("two")),
    ):
        last = backend.seen.pop()
        assert last.body == b"the last one"
        for seen in backend.seen:
            assert seen.target == "/v1/models"
            assert seen.all("x-consumer") == [owner]
            assert len(seen.all("authorization")) == 1
            assert key not in repr(seen.headers)
    if any("{other}" in trick for trick in tricks) and "X-API-Key: {good}" not in tricks:
        # Of two keys nginx before 1.23 hears the first alone, later ones refuse the pair; never
        # does a pair open both.
        assert not (llama.seen and mistral.seen)


def test_a_request_behind_another_on_one_connection_is_judged_by_itself(apart):
    proxy, llama, mistral = apart
    first = _request("GET", "/llama/v1/models", proxy.key("one"))
    second = _request("GET", "/mistral/v1/models", None)
    third = _request("GET", "/mistral/v1/models", proxy.key("one")).replace(
        b"Host:", b"Connection: close\r\nHost:"
    )
    answers = proxy.raw(first + second + third)
    assert [int(each.split()[0]) for each in answers.split(b"HTTP/1.1 ")[1:]] == [200, 401, 404]
    assert len(llama.seen) == 1
    assert not mistral.seen


def test_a_body_that_looks_like_a_request_is_a_body(apart):
    proxy, llama, mistral = apart
    inner = _request("GET", "/mistral/v1/models", proxy.key("two"))
    head = (
        "POST /llama/v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer"
        f" {proxy.key('one')}\r\nContent-Length: {len(inner)}\r\n"
    )
    proxy.raw(head.encode() + b"Connection: close\r\n\r\n" + inner)
    assert [each.body for each in llama.seen] == [inner]
    assert not mistral.seen


@pytest.mark.parametrize(
    "path",
    [
        "/llama/V1/models",
        "/LLAMA/v1/models",
        "/llama/v1/Models",
        "/llama/v1/models/",
        "/llama/v1/models.",
        "/llama/v1/models;x",
    ],
)
def test_a_path_in_other_letters_or_with_an_ending_is_not_the_listed_one(apart, path):
    proxy, llama, _ = apart
    assert proxy.call("GET", path, proxy.key("one")).status == 404
    assert not llama.seen
