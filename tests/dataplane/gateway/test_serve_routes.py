"""Ray Serve applications behind a real nginx: what each one lists passes, and nothing else does."""

from __future__ import annotations

import json
import re
import socket
import threading
from contextlib import closing

import pytest

from inferplan.components.handles import EndpointProtocol, ServeRoute
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.engine_routes import METHODS
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.dataplane.gateway.variants import variants
from tests.patience import PATIENCE_SECONDS

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}
ROUTES = (
    ServeRoute(prefix="/rag", methods=("GET", "POST"), headers=("X-Session-Id",)),
    ServeRoute(prefix="/talk", methods=("POST",), web_socket=True),
)


class EchoSocket:
    """Accepts connections, keeps their heads, answers 101 and sends every byte back."""

    def __init__(self):
        self.heads: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with closing(connection):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (part := connection.recv(65536)):
                    return
                head += part
            self.heads.append(head.decode("latin-1"))
            connection.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection:"
                b" Upgrade\r\n\r\n"
            )
            while part := connection.recv(65536):
                connection.sendall(part)


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    backend, sockets = Backend().start(), EchoSocket()
    proxy = Proxy(tmp_path_factory.mktemp("serve"))

    def app(name, port, *routes, consumers=("chat",)):
        from dataclasses import replace

        return replace(
            endpoint(name, port, consumers, EndpointProtocol(kind="ray-serve", port=port, path="")),
            routes=routes,
        )

    endpoints = [
        app("app", backend.port, *ROUTES),
        app("plain", backend.port, ServeRoute()),
        app(
            "live",
            sockets.port,
            ServeRoute(methods=("GET",), web_socket=True, headers=("X-Session-Id",)),
        ),
        app("closed", backend.port, *ROUTES, consumers=("other",)),
        endpoint("llm", backend.port, ("chat",)),
    ]
    try:
        yield (
            proxy.run(spec(), endpoints, {"chat": consumer(keys=[1]), "other": consumer(keys=[1])}),
            backend,
            sockets,
        )
    finally:
        proxy.stop()
        backend.stop()
        sockets.listener.close()


@pytest.fixture
def clean(stand):
    stand[1].seen.clear()
    stand[2].heads.clear()
    return stand


@pytest.mark.parametrize(
    "query", ["?stream=true", "?q=a%20b&x=%2e%2e/", "?", "?a=1?b=2&c=http://x/"]
)
def test_the_query_string_reaches_the_application_unchanged(clean, query):
    proxy, backend, _ = clean
    assert proxy.call("POST", f"/app/serve/rag/ask{query}", proxy.key("chat"), b"{}").status == 200
    assert [each.target for each in backend.seen] == [
        f"/rag/ask{query}".removesuffix("?") if query == "?" else f"/rag/ask{query}"
    ]
    assert proxy.call("POST", f"/llm/v1/completions{query}", proxy.key("chat"), b"{}").status == 200
    assert backend.seen[-1].target == "/v1/completions"


@pytest.mark.parametrize("model", ["app", "plain", "closed"])
def test_each_application_gets_its_own_methods_and_paths_only(clean, model):
    proxy, backend, _ = clean
    allowed = {
        "app": {
            ("GET", "/rag"),
            ("POST", "/rag"),
            ("POST", "/talk"),
            ("GET", "/rag/a/b"),
            ("POST", "/rag/a/b"),
        },
        "plain": {("POST", path) for path in ("", "/rag", "/talk", "/rag/a/b", "/ragged", "/docs")},
        "closed": set(),
    }[model]
    for path in (
        "",
        "/rag",
        "/talk",
        "/rag/a/b",
        "/ragged",
        "/docs",
        "/rag/-/routes",
        "/-/routes",
        "/rag/.git",
        "/rag/../-/routes",
    ):
        for method in METHODS:
            backend.seen.clear()
            status = proxy.call(
                method,
                f"/{model}/serve{path}",
                proxy.key("chat"),
                b"{}" if method == "POST" else None,
            ).status
            expected = 200 if (method, path) in allowed else 404
            assert (status, len(backend.seen)) == (expected, int(expected == 200)), (method, path)


def test_listed_headers_pass_to_their_model_only_and_forwarded_ones_are_ours(clean):
    proxy, backend, _ = clean
    sent = {
        "X-Session-Id": "s-1",
        "Cookie": "a=b",
        "X-Other": "x",
        "X-Forwarded-For": "6.6.6.6",
        "X-Forwarded-Host": "evil.test",
        "X-Forwarded-Proto": "ftp",
        "X-Forwarded-Prefix": "/evil",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": KEY,
    }
    for path in ("/app/serve/rag", "/plain/serve", "/llm/v1/completions"):
        assert proxy.call("POST", path, proxy.key("chat"), b"{}", sent).status == 200
    app, plain, llm = (dict(each.headers) for each in backend.seen)
    assert app["x-session-id"] == "s-1"
    assert "x-session-id" not in plain
    assert "x-session-id" not in llm
    for seen, prefix in ((app, "/app/serve"), (plain, "/plain/serve")):
        assert seen["connection"] == "close"
        forwarded = {name: value for name, value in seen.items() if name.startswith("x-forwarded")}
        assert forwarded == {
            "x-forwarded-for": "127.0.0.1",
            "x-forwarded-host": "llm.test",
            "x-forwarded-proto": "http",
            "x-forwarded-prefix": prefix,
        }
    for seen in (app, plain, llm):
        assert not {"cookie", "x-other", "upgrade", "sec-websocket-key"} & set(seen)
        # Absent where the connection is kept.
        assert seen.get("connection", "close") == "close"
        assert seen["x-consumer"] == "chat"
    assert not [name for name in llm if name.startswith("x-forwarded")]


def _open(proxy, path, headers):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_SECONDS)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: llm.test\r\n{lines}\r\n".encode())
    reader = connection.makefile("rb")
    status = int(reader.readline().split()[1])
    while reader.readline() not in (b"\r\n", b""):
        pass
    return status, connection, reader


def test_a_web_socket_carries_bytes_both_ways_and_only_the_handshake_s_headers(clean):
    proxy, _, sockets = clean
    headers = {
        **HANDSHAKE,
        "Authorization": f"Bearer {proxy.key('chat')}",
        "X-Session-Id": "s",
        "X-Other": "x",
        "Cookie": "a=b",
    }
    status, connection, reader = _open(proxy, "/live/serve/feed?topic=a", headers)
    with closing(connection):
        assert status == 101
        for message in (b"\x81\x05hello", b"\x82\x01\x00"):
            connection.sendall(message)
            assert reader.read(len(message)) == message
    [head] = sockets.heads
    line, *fields = head.split("\r\n")
    seen = {
        name.lower(): value.strip()
        for name, _, value in (each.partition(":") for each in fields if each)
    }
    assert line == "GET /feed?topic=a HTTP/1.1"
    assert (seen["upgrade"], seen["connection"], seen["sec-websocket-key"]) == (
        "websocket",
        "upgrade",
        KEY,
    )
    assert (seen["x-session-id"], seen["x-consumer"]) == ("s", "chat")
    assert not {"cookie", "x-other"} & set(seen)
    assert proxy.key("chat") not in head


@pytest.mark.parametrize(
    ("path", "change", "status"),
    [
        ("/live/serve/feed", {"Authorization": ""}, 401),
        ("/closed/serve/talk", {}, 404),
        ("/plain/serve", {}, 404),
        ("/app/serve/rag", {}, 404),
        ("/llm/v1/models", {}, 404),
        ("/live/serve/-/feed", {}, 404),
    ],
)
def test_a_web_socket_opens_nowhere_else(clean, path, change, status):
    proxy, backend, sockets = clean
    got, connection, _ = _open(
        proxy, path, {**HANDSHAKE, "Authorization": f"Bearer {proxy.key('chat')}", **change}
    )
    connection.close()
    assert got == status
    assert not sockets.heads
    assert not backend.seen


@pytest.mark.parametrize(
    "change", [{"Sec-WebSocket-Version": "12"}, {"Upgrade": "h2c"}, {"Upgrade": "websocket, h2c"}]
)
def test_another_protocol_is_no_upgrade(clean, change):
    proxy, _, sockets = clean
    _, connection, _ = _open(
        proxy,
        "/live/serve/feed",
        {**HANDSHAKE, "Authorization": f"Bearer {proxy.key('chat')}", **change},
    )
    connection.close()
    for head in sockets.heads:
        assert "upgrade" not in head.lower().replace("upgrade-insecure", "")


def test_no_spelling_of_a_path_reaches_another_route_of_an_application(clean):
    proxy, backend, _ = clean
    listed = re.compile(r"/(rag|talk)(/[A-Za-z0-9_][-A-Za-z0-9._~]*){0,8}(\?.*)?")
    for number, target in enumerate(variants(400)):
        path = (
            target.replace("llama", "app/serve/rag", 1) if number % 2 else f"/app/serve/rag{target}"
        )
        method = ("GET", "POST", "PUT")[number % 3]
        backend.seen.clear()
        request = (
            f"{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer"
            f" {proxy.key('chat')}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )
        proxy.raw(request.encode("utf-8", "surrogateescape"))
        for seen in backend.seen:
            if seen.target.startswith("/v1/") and path.startswith("/llm"):
                continue
            assert listed.fullmatch(seen.target), path
            assert seen.method in ("GET", "POST"), path


def test_a_key_in_the_path_of_an_application_reaches_no_log(clean):
    proxy, backend, _ = clean
    key, imported = proxy.key("chat"), "sk-live-Zt7Qm2Lx9Rk4Vw8Nc3Hd6Bp1Jg5Ys0Ff"
    paths = [
        f"/rag/ask/{key}/more",
        f"/rag/{key.upper()}",
        f"/rag/as?k=1&key={key}",
        f"/rag/{imported}",
        f"/rag/%69pk_{key[4:]}",
    ]
    answers = [
        proxy.call("POST", f"/app/serve{path}", key, b"{}")
        for path in (*paths, "/rag/documents/2026/annual-report.pdf")
    ]
    assert [each.status for each in answers] == [200] * 6
    assert backend.seen[0].target == paths[0], "the application gets the path as it was sent"
    lines = [json.loads(line) for line in proxy.access_log(*answers).splitlines()]
    logged = {each["requestId"]: each["path"] for each in lines}
    ids = [each.headers["x-request-id"] for each in answers]
    assert [logged[each] for each in ids] == [
        *(
            "/rag/ask/[hidden]",
            "/rag/[hidden]",
            "/rag/as",
            "/rag/[hidden]",
            "/rag/[hidden]",
            "/rag/documents/2026/annual-report.pdf",
        ),
    ]
    written = (proxy.directory / "access.log").read_text().lower()
    assert key.split("_")[3].lower() not in written
    assert imported.lower() not in written
