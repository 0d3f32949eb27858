"""The address /v1 of every model: names in bodies, the model list, forwarding byte for byte, and
the same rights as at a model's own address.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from inferplan.components.gateway.memory import BODIES, CHUNKED, share
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.connection import Connection
from tests.dataplane.gateway.forms import INVALID, VALID
from tests.dataplane.gateway.stand import Answer, Proxy, consumer, endpoint, spec, wait_for
from tests.dataplane.gateway.test_requests import error
from tests.patience import PATIENCE_SECONDS

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "multipart/form-data; boundary=XX"}
CALLS = (
    "chat/completions",
    "completions",
    "embeddings",
    "responses",
    "messages",
    "messages/count_tokens",
    "score",
    "rerank",
)
AUDIO = ("audio/transcriptions", "audio/translations")


def form(model: str = "llama", audio: bytes = b"\x00\r\n--X\xff\r\n-") -> bytes:
    file = (
        b'--XX\r\nContent-Disposition: form-data; name="file"; filename="model"\r\nContent-Type:'
        b" audio/wav\r\n\r\n" + audio
    )
    return (
        file
        + b'\r\n--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\n'
        + model.encode()
        + b"\r\n--XX--\r\n"
    )


@dataclass(frozen=True)
class Stand:
    """`llama`, which also serves meta/Llama-3, may be called by chat and batch, `mistral` by batch
    alone. Both serve `shared`.
    """

    proxy: Proxy
    llama: Backend
    mistral: Backend

    def post(
        self, call: str, body: bytes, who: str = "chat", headers: dict[str, str] = JSON
    ) -> Answer:
        return self.proxy.call("POST", f"/v1/{call}", self.proxy.key(who), body, headers)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    llama, mistral = Backend().start(), Backend().start()
    proxy = Proxy(tmp_path_factory.mktemp("one-address"))
    consumers = {
        "chat": consumer(keys=[1]),
        "batch": consumer(keys=[2]),
        "slow": consumer(keys=[1], limits={"requestsPerMinute": 1, "burst": 0}),
    }
    endpoints = [
        endpoint(
            "llama",
            llama.port,
            ("chat", "batch", "slow"),
            served=("llama", "meta/Llama-3", "shared"),
        ),
        endpoint("mistral", mistral.port, ("batch",), served=("mistral", "shared")),
    ]
    try:
        yield Stand(proxy.run(spec(maxBodySize="8Mi"), endpoints, consumers), llama, mistral)
    finally:
        proxy.stop()
        llama.stop()
        mistral.stop()


@pytest.fixture
def stand(served):
    served.llama.seen.clear()
    served.mistral.seen.clear()
    return served


@pytest.mark.parametrize("call", CALLS)
def test_each_call_reaches_the_model_that_its_body_names_byte_for_byte(stand, call):
    body = (
        ' {"input": "é\\n\\u00e9 \\"model\\": \\"mistral\\"", "n" :'
        ' 1.50,\t"tools":[{"model":"mistral"}], "model": "llama"}\r\n'.encode()
    )
    assert stand.post(call, body).status == 200
    [seen] = stand.llama.seen
    assert (seen.method, seen.target, seen.body) == ("POST", f"/v1/{call}", body)
    assert seen.all("x-consumer") == ["chat"]
    assert not stand.mistral.seen


@pytest.mark.parametrize("call", AUDIO)
def test_audio_names_its_model_in_a_field_of_the_form(stand, call):
    assert stand.post(call, form(), headers=FORM).status == 200
    [seen] = stand.llama.seen
    assert (seen.target, seen.body, seen.all("content-type")) == (
        f"/v1/{call}",
        form(),
        [FORM["Content-Type"]],
    )


@pytest.mark.parametrize("body", VALID.values(), ids=VALID)
def test_a_form_that_every_parser_reads_alike_reaches_its_model(stand, body):
    assert stand.post(AUDIO[0], body, headers=FORM).status == 200
    assert [each.body for each in stand.llama.seen] == [body]


@pytest.mark.parametrize("body", INVALID.values(), ids=INVALID)
def test_a_form_that_could_be_read_in_two_ways_is_invalid(stand, body):
    answer = stand.post(AUDIO[0], body, headers=FORM)
    assert (answer.status, error(answer)["code"]) == (400, "invalid_body")
    assert not stand.llama.seen


@pytest.mark.parametrize("name", ["meta/Llama-3", "meta\\/Llama-3"])
def test_a_served_name_is_a_name_also_with_an_escaped_slash(stand, name):
    assert stand.post("completions", f'{{"model":"{name}"}}'.encode()).status == 200
    assert len(stand.llama.seen) == 1


@pytest.mark.parametrize(
    "name",
    [
        "mistral",
        "nothing",
        "LLAMA",
        "Llama",
        "meta/llama-3",
        "shared",
        "llama ",
        "llama/",
        "v1",
        "",
        "a" * 256,
        "a" * 257,
    ],
)
def test_a_model_without_permission_and_an_unknown_one_have_the_same_answer(stand, name):
    answer = stand.post("chat/completions", json.dumps({"model": name}).encode())
    if name in ("", "llama ", "a" * 257):
        assert (answer.status, error(answer)["code"]) == (400, "invalid_body")
    else:
        assert (answer.status, error(answer)["code"]) == (404, "model_not_found")
        assert answer.body == stand.post("chat/completions", b'{"model":"no-such-model"}').body
    assert not stand.llama.seen
    assert not stand.mistral.seen


BROKEN = {
    "no model": b'{"messages": []}',
    "two models": b'{"model":"llama","model":"llama"}',
    "an escaped second one": b'{"model":"llama","m\\u006fdel":"mistral"}',
    "an escaped name": b'{"model":"l\\u006cama"}',
    "a number": b'{"model":1}',
    "a list": b'{"model":["llama"]}',
    "null": b'{"model":null}',
    "nested only": b'{"x":{"model":"llama"}}',
    "a list of requests": b'[{"model":"llama"}]',
    "two documents": b'{"model":"llama"}{"model":"mistral"}',
    "an open string": b'{"model":"llama","x":"}',
    "utf-16": '{"model":"llama"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"model":"llama"}',
    "65 levels": b'{"model":"llama","x":' + b"[" * 65 + b"]" * 65 + b"}",
    "empty": b"",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_body_that_could_be_read_in_two_ways_is_invalid(stand, body):
    answer = stand.post("chat/completions", body)
    assert (answer.status, error(answer)["code"]) == (400, "invalid_body")
    assert "x-request-id" in answer.headers
    assert not stand.llama.seen


def test_sixty_four_levels_of_nesting_pass(stand):
    assert (
        stand.post("completions", b'{"x":' + b"[" * 64 + b"]" * 64 + b',"model":"llama"}').status
        == 200
    )


def test_the_type_of_the_content_is_checked(stand):
    for headers in (
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/jsonl"},
        FORM,
        {**JSON, "Content-Encoding": "gzip"},
    ):
        answer = stand.post("completions", b'{"model":"llama"}', headers=headers)
        assert (answer.status, error(answer)["code"]) == (400, "invalid_body"), headers
    assert (
        stand.post(
            "completions",
            b'{"model":"llama"}',
            headers={"Content-Type": "Application/JSON; charset=utf-8"},
        ).status
        == 200
    )
    assert stand.post("audio/translations", b'{"model":"llama"}').status == 400
    assert (
        stand.post(
            "audio/translations",
            form(),
            headers={"Content-Type": "multipart/form-data; boundary=XY"},
        ).status
        == 400
    )
    assert len(stand.llama.seen) == 1


def _chunked(stand: Stand, call: str, headers: dict[str, str], *parts: bytes) -> Answer:
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))
    return stand.proxy.call(
        "POST",
        f"/v1/{call}",
        stand.proxy.key("chat"),
        body,
        {**headers, "Transfer-Encoding": "chunked"},
    )


@pytest.mark.parametrize(
    ("call", "headers", "body"),
    [("completions", JSON, b'{"input":"x","model":"llama"}'), (AUDIO[0], FORM, form())],
)
def test_a_body_in_chunks_is_read_as_one(stand, call, headers, body):
    assert _chunked(stand, call, headers, body[:9], body[9:20], body[20:]).status == 200
    [seen] = stand.llama.seen
    assert (seen.body, seen.all("content-length"), seen.all("transfer-encoding")) == (
        body,
        [str(len(body))],
        [],
    )
    assert _chunked(stand, call, headers, body.replace(b"llama", b"mistral")).status == 404
    assert _chunked(stand, call, headers, body, b" x").status == 400
    assert not stand.mistral.seen


def test_a_body_in_chunks_has_the_bounds_of_the_size_that_is_reserved_for_it(tmp_path, stand):
    proxy = Proxy(tmp_path)
    try:
        proxy.run(
            spec(), [endpoint("llama", stand.llama.port, ("chat",))], {"chat": consumer(keys=[1])}
        )
        own = replace(stand, proxy=proxy)
        text = b"x" * 5_000_000
        assert (
            _chunked(own, "completions", JSON, b'{"model":"llama","x":"', text, b'"}').status == 200
        )
        answer = _chunked(own, "completions", JSON, b'{"model":"llama","x":"', text, text, b'"}')
        assert (answer.status, error(answer)["code"]) == (413, "request_too_large")
        held = [
            threading.Thread(
                target=lambda: _chunked(own, "completions", JSON, b'{"model":"llama","hold":true}')
            )
            for _ in range(BODIES[CHUNKED].slots)
        ]
        for each in held:
            each.start()
        wait_for(lambda: len(stand.llama.seen) == len(held) + 1, "the bodies are held")
        assert _chunked(own, "completions", JSON, b'{"model":"llama"}').status == 429
        for _ in held:
            stand.llama.permits.put("go")
        for each in held:
            each.join(PATIENCE_SECONDS)
    finally:
        proxy.stop()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/completions"),
        ("POST", "/v1/models"),
        ("POST", "/v1/tokenize"),
        ("POST", "/v1"),
        ("GET", "/v1/"),
        ("POST", "/v1/v1/x"),
    ],
)
def test_other_calls_have_no_route(stand, method, path):
    answer = stand.proxy.call(method, path, stand.proxy.key("chat"), b'{"model":"llama"}', JSON)
    assert (answer.status, error(answer)["code"]) == (404, "not_found")


def _listed(stand: Stand, who: str) -> list[str]:
    answer = stand.proxy.call("GET", "/v1/models", stand.proxy.key(who, 2 if who == "batch" else 1))
    document = json.loads(answer.body)
    assert (answer.status, answer.headers["content-type"], document["object"]) == (
        200,
        "application/json",
        "list",
    )
    assert all(
        (each["object"], type(each["created"]), each["owned_by"]) == ("model", int, "inferplan")
        for each in document["data"]
    )
    return [each["id"] for each in document["data"]]


def test_the_list_has_what_the_consumer_may_call_and_asks_no_server(stand):
    assert _listed(stand, "chat") == ["llama", "meta/Llama-3"]
    assert _listed(stand, "batch") == ["llama", "meta/Llama-3", "mistral"]
    for name, status in {
        "llama": 200,
        "meta/Llama-3": 200,
        "mistral": 404,
        "nothing": 404,
        "LLAMA": 404,
    }.items():
        answer = stand.proxy.call("GET", f"/v1/models/{name}", stand.proxy.key("chat"))
        assert answer.status == status, name
        assert status == 404 or json.loads(answer.body)["id"] == name
    assert stand.proxy.call("GET", "/v1/models", None).status == 401
    assert not stand.llama.seen


def test_a_list_of_two_hundred_models_is_whole(tmp_path):
    names = [f"model-{number}" for number in range(200)]
    proxy = Proxy(tmp_path)
    served = [
        endpoint(name, 9, ("chat",), served=(f"a-company-with-a-long-name/{name}",))
        for name in names
    ]
    try:
        proxy.run(spec(), served, {"chat": consumer(keys=[1]), "none": consumer(keys=[1])})
        listed = json.loads(proxy.call("GET", "/v1/models", proxy.key("chat")).body)["data"]
        assert sorted(each["id"] for each in listed) == sorted(
            f"a-company-with-a-long-name/{name}" for name in names
        )
        assert json.loads(proxy.call("GET", "/v1/models", proxy.key("none")).body) == {
            "object": "list",
            "data": [],
        }
    finally:
        proxy.stop()


def test_a_stream_arrives_event_by_event(stand):
    with closing(Connection(stand.proxy.port)) as connection:
        headers = {**JSON, "Authorization": f"Bearer {stand.proxy.key('chat')}"}
        connection.request(
            "POST",
            "/v1/chat/completions",
            body=b'{"model":"llama","stream":true,"events":3}',
            headers=headers,
        )
        response = connection.getresponse()
        for number in range(3):
            # The server sends the next event only after a permit, so this one has not waited for
            # it.
            assert response.readline() == f"data: {number}\n".encode()
            response.readline()
            stand.llama.permits.put("go")
        assert response.read() == b""


def test_a_connection_serves_several_calls(stand):
    with closing(Connection(stand.proxy.port)) as connection:
        sockets = []
        for body, status in (
            (b'{"model":"llama"}', 200),
            (b'{"model":"mistral"}', 404),
            (b"{}", 400),
            (b'{"model":"llama"}', 200),
        ):
            connection.request(
                "POST",
                "/v1/completions",
                body=body,
                headers={**JSON, "Authorization": f"Bearer {stand.proxy.key('chat')}"},
            )
            response = connection.getresponse()
            response.read()
            assert response.status == status
            sockets.append(connection.sock)
    assert sockets[0] is not None
    assert len(set(map(id, sockets))) == 1


def test_calls_that_follow_each_other_on_a_connection_are_judged_by_their_own_bodies(stand):
    def call(body: bytes, *, last: bool = False) -> bytes:
        head = (
            "POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer"
            f" {stand.proxy.key('chat')}\r\nContent-Type: application/json\r\n"
        )
        return (
            f"{head}{'Connection: close' if last else 'X: y'}\r\nContent-Length:"
            f" {len(body)}\r\n\r\n".encode()
            + body
        )

    answers = stand.proxy.raw(
        call(b'{"model":"llama"}')
        + call(b'{"model":"mistral"}')
        + call(b'{"model":"llama","n":2}', last=True)
    )
    assert [int(each.split()[0]) for each in answers.split(b"HTTP/1.1 ")[1:]] == [200, 404, 200]
    assert [each.body for each in stand.llama.seen] == [
        b'{"model":"llama"}',
        b'{"model":"llama","n":2}',
    ]


def test_a_large_body_passes_whole_and_a_larger_one_is_denied(stand):
    body = json.dumps({"messages": "x" * 6_000_000, "model": "llama"}).encode()
    assert stand.post("chat/completions", body).status == 200
    assert stand.llama.seen[0].body == body
    answer = stand.post("chat/completions", body + b" " * 3_000_000)
    assert (answer.status, error(answer)["code"]) == (413, "request_too_large")


def test_the_number_of_large_bodies_that_a_pod_holds_is_limited(stand):
    body = json.dumps({"hold": True, "messages": "x" * 1_000_000, "model": "llama"}).encode()
    answers: list[int] = []
    calls = [
        threading.Thread(target=lambda: answers.append(stand.post("completions", body).status))
        for _ in range(share(BODIES["large"].slots, 3))
    ]
    for each in calls:
        each.start()
    wait_for(lambda: len(stand.llama.seen) == len(calls), "the share is held")
    denied = stand.post("completions", body)
    assert (denied.status, denied.headers["retry-after"]) == (429, "1")
    assert stand.post("completions", b'{"model":"llama"}').status == 200
    other = b'{"model":"llama","messages":"' + b"x" * 1_000_000 + b'"}'
    key = stand.proxy.key("batch", 2)
    assert stand.proxy.call("POST", "/v1/completions", key, other, JSON).status == 200
    for _ in calls:
        stand.llama.permits.put("go")
    for each in calls:
        each.join(PATIENCE_SECONDS)
    assert answers == [200] * len(calls)
    assert (
        stand.post(
            "completions", b'{"model":"llama","messages":"' + b"x" * 1_000_000 + b'"}'
        ).status
        == 200
    )


def test_limits_hold_for_both_addresses_together(stand):
    key = stand.proxy.key("slow")
    assert stand.proxy.call("POST", "/llama/v1/completions", key, b"{}").status == 200
    answer = stand.post("completions", b'{"model":"llama"}', "slow")
    assert (answer.status, answer.headers["retry-after"]) == (429, "60")


def test_the_log_names_model_and_denied_key_but_shows_no_key(stand):
    calls = [
        stand.post("completions", b'{"model":"meta/Llama-3"}'),
        stand.proxy.call(
            "POST", "/v1/completions", stand.proxy.key("chat", 7), b'{"model":"llama"}', JSON
        ),
        stand.proxy.call("POST", "/v1/completions", None, b'{"model":"llama"}', JSON),
    ]
    assert [each.status for each in calls] == [200, 401, 401]
    log = stand.proxy.access_log(*calls)
    lines = {each["requestId"]: each for each in map(json.loads, log.splitlines())}
    logged = [lines[each.headers["x-request-id"]] for each in calls]
    assert [(each["model"], each["consumer"], each["deniedKey"]) for each in logged] == [
        ("llama", "chat", ""),
        ("", "", "chat 7"),
        ("", "", ""),
    ]
    assert (logged[0]["protocol"], logged[0]["path"]) == ("openai", "/completions")
    assert stand.proxy.key("chat", 7) not in log
    assert "ipk_" not in log


def test_prompts_stay_out_of_the_error_log(stand):
    # Two million values take more steps than PCRE allows.
    answer = stand.post(
        "completions", b'{"secret prompt":[' + b'[],"",' * 1_200_000 + b'0],"model":"llama"}'
    )
    assert (answer.status, error(answer)["code"]) in ((200, None), (400, "invalid_body"))
    assert "prompt" not in (stand.proxy.directory / "error.log").read_text()


def test_a_body_that_never_arrives_occupies_nothing_else(stand):
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer"
        f" {stand.proxy.key('chat')}\r\nContent-Type: application/json\r\n"
    )
    with closing(
        socket.create_connection(("127.0.0.1", stand.proxy.port), timeout=PATIENCE_SECONDS)
    ) as connection:
        connection.sendall(f'{head}Content-Length: 500\r\n\r\n{{"model":"llama"}}'.encode())
        assert stand.post("completions", b'{"model":"llama"}').status == 200
    assert len(stand.llama.seen) == 1


def test_a_stack_without_models_of_the_openai_protocol_has_no_such_address(tmp_path):
    from inferplan.components.handles import EndpointProtocol

    proxy = Proxy(tmp_path)
    try:
        proxy.run(
            spec(),
            [
                endpoint(
                    "vision", 9, ("chat",), EndpointProtocol(kind="kserve-v2-http", port=9, path="")
                )
            ],
            {"chat": consumer(keys=[1])},
        )
        assert proxy.call("GET", "/v1/models", proxy.key("chat")).status == 404
    finally:
        proxy.stop()
