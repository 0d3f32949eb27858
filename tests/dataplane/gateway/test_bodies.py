"""No spelling of a body at /v1 reaches a model that its key may not call, or one that a parser
could read it without.
"""

from __future__ import annotations

import json
import socket
from contextlib import closing
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path

import pytest

from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.bodies import FOREIGN, GOOD, Variant, readings, variants
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """llama for `one` alone, mistral for `two` alone."""
    llama, mistral = Backend().start(), Backend().start()
    proxy = Proxy(tmp_path_factory.mktemp("bodies"))
    endpoints = [endpoint(GOOD, llama.port, ("one",)), endpoint(FOREIGN, mistral.port, ("two",))]
    try:
        yield (
            proxy.run(
                spec(maxBodySize="1Mi"),
                endpoints,
                {"one": consumer(keys=[1]), "two": consumer(keys=[1])},
            ),
            llama,
            mistral,
        )
    finally:
        proxy.stop()
        llama.stop()
        mistral.stop()


def _request(variant: Variant, key: str) -> bytes:
    body, size = variant.body, len(variant.body)
    chunked = f"{size:x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    framing, sent = {
        "length": (f"Content-Length: {size}", body),
        "chunked": ("Transfer-Encoding: chunked", chunked),
        "both": (f"Content-Length: {size}\r\nTransfer-Encoding: chunked", chunked),
        "short": (f"Content-Length: {max(0, size - 1)}", body),
        "two lengths": (f"Content-Length: {size}\r\nContent-Length: {size + 1}", body),
    }[variant.framing]
    head = "\r\n".join(
        (
            f"POST /v1/{variant.call} HTTP/1.1",
            "Host: a",
            f"Authorization: Bearer {key}",
            *variant.headers,
            framing,
            "Connection: close",
        )
    )
    return f"{head}\r\n\r\n".encode() + sent


def _answer(port: int, request: bytes) -> tuple[int, bytes]:
    with closing(
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    ) as connection:
        connection.sendall(request)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionResetError:
            pass  # nginx closes while bytes behind a short body are still on their way
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def _names_only_llama(variant: Variant) -> bool:
    if variant.call == "chat/completions":
        return readings(variant.body) <= {json.dumps(GOOD), None}
    message = BytesParser(EmailMessage, policy=HTTP).parsebytes(
        f"{variant.headers[0]}\r\n\r\n".encode() + variant.body
    )
    fields = [
        part.get_content()
        for part in message.iter_parts()
        if part.get_param("name", header="content-disposition") == "model"
    ]
    return {each.strip() if isinstance(each, str) else each for each in fields} == {GOOD}


@pytest.mark.parametrize("count", [2_000, *in_full(10_000)])
def test_no_spelling_of_a_body_reaches_another_model(served, count):
    proxy, llama, mistral = served
    passed, before = 0, _memory(proxy)
    for variant in variants(count):
        llama.seen.clear()
        status, body = _answer(proxy.port, _request(variant, proxy.key("one")))
        assert not mistral.seen, variant
        assert len(llama.seen) == (status == 200), variant
        if status == 200:
            passed += 1
            assert _names_only_llama(variant), variant
            assert llama.seen[0].body == variant.body[: len(llama.seen[0].body)]
            assert llama.seen[0].all("x-consumer") == ["one"]
        elif status != 400 or body.startswith(b"{"):
            # nginx itself answers what is no HTTP, with a page.
            assert status in (400, 404), variant
            assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}, variant
    assert count / 20 < passed < count / 2
    assert _memory(proxy) - before < 64 * 2**20
    assert len(proxy.listening()) == proxy.layout.workers
    log = (proxy.directory / "error.log").read_text()
    assert "exited on signal" not in log
    assert GOOD not in log


def _memory(proxy: Proxy) -> int:
    """Bytes of the workers at their largest."""
    sizes = [
        line.split()[1]
        for pid in proxy.workers()
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return 1024 * sum(map(int, sizes))
