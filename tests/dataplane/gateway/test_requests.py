"""What a client meets: the right answer for each key, headers that are stripped or set, errors in
the API's own shape.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from contextlib import closing

import pytest

from inferplan.components.gateway import keys
from inferplan.components.platforms.aws.load_balancers import AlbSpec

CHAT = "/llama/v1/chat/completions"


def error(answer):
    """The error of an answer in the exact shape of the OpenAI API."""
    assert answer.headers["content-type"] == "application/json"
    [(kind, told)] = json.loads(answer.body).items()
    assert (kind, set(told), told["param"]) == ("error", {"message", "type", "param", "code"}, None)
    return told


def test_a_valid_key_reaches_the_engine_on_its_own_path(clean):
    answer = clean.proxy.call("POST", CHAT, clean.proxy.key("chat", 3), b'{"model": "llama"}')
    assert answer.status == 200
    [seen] = clean.llama.seen
    assert (seen.method, seen.target, seen.body) == (
        "POST",
        "/v1/chat/completions",
        b'{"model": "llama"}',
    )
    assert not clean.mistral.seen


@pytest.mark.parametrize("version", [3, 2])
def test_each_version_that_the_stack_lists_is_valid(clean, version):
    assert clean.proxy.call("POST", CHAT, clean.proxy.key("chat", version), b"{}").status == 200


def test_the_key_may_come_in_x_api_key(clean):
    assert (
        clean.proxy.call(
            "POST", CHAT, headers={"X-API-Key": clean.proxy.key("chat", 3)}, body=b"{}"
        ).status
        == 200
    )


def test_the_scheme_is_read_without_regard_to_case(clean):
    key = clean.proxy.key("chat", 3)
    assert (
        clean.proxy.call(
            "POST", CHAT, body=b"{}", headers={"Authorization": f"bearer {key}"}
        ).status
        == 200
    )


def test_the_same_key_in_both_headers_is_one_key(clean):
    key = clean.proxy.key("chat", 3)
    assert clean.proxy.call("POST", CHAT, key, b"{}", {"X-API-Key": key}).status == 200


def _wrong_keys(proxy):
    good = proxy.key("chat", 3)
    other_seed = keys.consumer_key("another seed of the same length, for another stack", "chat", 3)
    swapped = good[:-20] + ("A" if good[-20] != "A" else "B") + good[-19:]
    return {
        "none": {},
        "empty bearer": {"Authorization": "Bearer "},
        "no scheme": {"Authorization": good},
        "basic": {"Authorization": f"Basic {good}"},
        "another seed": {"Authorization": f"Bearer {other_seed}"},
        "one character off": {"Authorization": f"Bearer {swapped}"},
        "upper case": {"Authorization": f"Bearer {good.upper()}"},
        "secret part in lower case": {"Authorization": f"Bearer {good.lower()}"},
        "cut": {"Authorization": f"Bearer {good[:-1]}"},
        "longer": {"Authorization": f"Bearer {good}x"},
        "retired version": {"Authorization": f"Bearer {proxy.key('chat', 1)}"},
        "version to come": {"Authorization": f"Bearer {proxy.key('chat', 4)}"},
        "unknown consumer": {"Authorization": f"Bearer {proxy.key('nobody', 1)}"},
        "two that differ": {"Authorization": f"Bearer {good}", "X-API-Key": proxy.key("batch")},
        "good and rubbish": {"Authorization": f"Bearer {good}", "X-API-Key": "rubbish"},
        "rubbish and good": {"Authorization": "Bearer rubbish", "X-API-Key": good},
        "two in one": {"Authorization": f"Bearer {good}, Bearer {good}"},
        "the server's own": {"Authorization": f"Bearer {keys.server_key(proxy.seed, 'llama')}"},
        "in the query": {},
        "cookie": {"Cookie": f"api_key={good}"},
    }


def test_anything_but_one_valid_key_is_refused(clean):
    for name, headers in _wrong_keys(clean.proxy).items():
        path = f"{CHAT}?api_key={clean.proxy.key('chat', 3)}" if name == "in the query" else CHAT
        answer = clean.proxy.call("POST", path, body=b"{}", headers=headers)
        assert answer.status == 401, name
        assert error(answer)["code"] == "invalid_api_key", name
        assert answer.headers["www-authenticate"] == "Bearer", name
    assert not clean.seen


def test_a_key_past_its_last_day_is_refused_and_told_so(clean):
    answer = clean.proxy.call("POST", CHAT, clean.proxy.key("former", 1), b"{}")
    assert answer.status == 401
    assert "expired" in error(answer)["message"]
    assert clean.proxy.call("POST", CHAT, clean.proxy.key("former", 2), b"{}").status == 200


def test_a_model_without_permission_answers_like_one_that_does_not_exist(clean):
    answers = [
        clean.proxy.call("POST", f"/{model}/v1/chat/completions", clean.proxy.key("chat", 3), b"{}")
        for model in ("mistral", "nothing")
    ]
    assert [each.status for each in answers] == [404, 404]
    assert error(answers[0])["code"] == "model_not_found"
    assert answers[0].body == answers[1].body
    assert set(answers[0].headers) == set(answers[1].headers)
    assert not clean.seen


@pytest.mark.parametrize("path", ["/llama/metrics", "/", "/llama"])
def test_an_unknown_route_is_not_found(clean, path):
    answer = clean.proxy.call("POST", path, clean.proxy.key("chat", 3), b"{}")
    assert answer.status == 404
    assert error(answer)["code"] == "not_found"
    assert not clean.seen


def test_without_a_key_known_and_unknown_paths_look_alike(clean):
    paths = ["/", CHAT, "/llama/metrics", "/nothing/v1/models", "/healthz"]
    answers = {
        (answer.status, answer.body) for answer in (clean.proxy.call("GET", path) for path in paths)
    }
    assert len(answers) == 1


def test_only_listed_headers_reach_the_engine(clean):
    sent = {
        "X-Consumer": "batch",
        "X-Consumer-Id": "batch",
        "X-Forwarded-For": "10.0.0.1",
        "X-Forwarded-User": "root",
        "X-Real-IP": "10.0.0.1",
        "X-User": "root",
        "X-Request-Id": "mine",
        "X-data-parallel-rank": "3",
        "Cookie": "session=1",
        "Origin": "https://chat.example",
        "Content-Type": "application/json",
        "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "User-Agent": "client/1",
    }
    key = clean.proxy.key("chat", 3)
    answer = clean.proxy.call("POST", CHAT, key, b"{}", sent)
    [seen] = clean.llama.seen
    # An nginx that keeps no connections says so to the server.
    assert {name for name, _ in seen.headers} - {"connection"} == {
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "traceparent",
        "user-agent",
        "x-consumer",
        "x-request-id",
    }
    assert seen.all("x-consumer") == ["chat"]
    assert seen.all("x-request-id") == [answer.headers["x-request-id"]] != ["mine"]
    assert seen.all("authorization") == [f"Bearer {keys.server_key(clean.proxy.seed, 'llama')}"]
    assert key.encode() not in repr(seen.headers).encode()


def test_each_model_gets_its_own_server_key(clean):
    clean.proxy.call("POST", "/mistral/v1/completions", clean.proxy.key("batch"), b"{}")
    [seen] = clean.mistral.seen
    assert seen.all("authorization") == [f"Bearer {keys.server_key(clean.proxy.seed, 'mistral')}"]


def test_a_query_string_stays_at_the_gateway(clean):
    clean.proxy.call("GET", "/llama/v1/models?api_key=secret", clean.proxy.key("chat", 3))
    [seen] = clean.llama.seen
    assert seen.target == "/v1/models"


def test_the_engine_cannot_steer_the_proxy(clean):
    for name, value in (
        ("X-Accel-Redirect", "/mistral/v1/models"),
        ("Set-Cookie", "a=b"),
        ("Access-Control-Allow-Origin", "*"),
    ):
        body = json.dumps({"answer_headers": {name: value}}).encode()
        answer = clean.proxy.call("POST", CHAT, clean.proxy.key("batch"), body)
        assert answer.status == 200
        assert name.lower() not in answer.headers
    assert not clean.mistral.seen


def test_an_error_of_the_engine_passes_as_it_is(clean):
    answer = clean.proxy.call(
        "POST", CHAT, clean.proxy.key("chat", 3), b'{"answer_status": "404 Not Found"}'
    )
    assert answer.status == 404
    assert json.loads(answer.body)["target"] == "/v1/chat/completions"


def test_a_body_over_the_limit_is_refused_in_the_shape_of_the_api(clean):
    answer = clean.proxy.call("POST", CHAT, clean.proxy.key("chat", 3), b"x" * (64 * 1024 + 1))
    assert answer.status == 413
    assert error(answer)["code"] == "request_too_large"
    assert (
        clean.proxy.call("POST", CHAT, clean.proxy.key("chat", 3), b"x" * (64 * 1024)).status == 200
    )


def test_a_body_over_the_limit_without_a_key_is_refused_for_the_key(clean):
    assert clean.proxy.call("POST", CHAT, body=b"x" * (64 * 1024 + 1)).status == 401


def test_a_body_that_follows_a_denied_head_in_the_next_second_ends_no_connection(clean):
    """nginx counts the time for the body in whole seconds of the clock."""
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\n"
    with closing(socket.create_connection(("127.0.0.1", clean.proxy.port), 30)) as connection:
        time.sleep(1 - (time.time() + 0.05) % 1)
        connection.sendall(f"{head}Content-Length: 2\r\n\r\n".encode())
        time.sleep(0.11)
        connection.sendall(b"{}")
        with closing(http.client.HTTPResponse(connection)) as denied:
            denied.begin()
            assert (denied.status, denied.headers["Connection"]) == (401, "keep-alive")
            denied.read()
        key = clean.proxy.key("chat", 3)
        connection.sendall(
            f"{head}Authorization: Bearer {key}\r\nContent-Length: 2\r\n\r\n{{}}".encode()
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a_chunked_body_passes(clean):
    key = clean.proxy.key("chat", 3)
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nTransfer-Encoding:"
        " chunked\r\nConnection: close\r\n\r\n"
    )
    assert clean.proxy.raw(head.encode() + b"2\r\n{}\r\n0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    [seen] = clean.llama.seen
    assert seen.body == b"{}"


def test_a_load_balancer_sees_life_in_the_refusal_of_a_call_without_a_key(clean):
    told = AlbSpec.model_construct(certificate_arn="").annotations(
        read_seconds=60, drain_seconds=60
    )
    path, codes = (
        told[f"alb.ingress.kubernetes.io/{key}"] for key in ("healthcheck-path", "success-codes")
    )
    assert str(clean.proxy.call("GET", path).status) in codes.split(",")
    assert not clean.llama.seen


def test_the_probe_port_serves_nothing_else(clean):
    assert clean.proxy.get_status("/healthz") == 200
    assert clean.proxy.get_status(CHAT) == 404
    assert clean.proxy.call("GET", "/healthz", clean.proxy.key("chat", 3)).status == 404


def test_the_access_log_names_consumer_and_version_and_never_a_key(clean):
    key = clean.proxy.key("chat", 2)
    answer = clean.proxy.call("POST", f"{CHAT}?leak={key}", key, b"{}", {"X-Note": key})
    lost = clean.proxy.call("POST", f"/{key}/v1/models", key, b"{}", {"User-Agent": key})
    lines = [json.loads(line) for line in clean.proxy.access_log(answer, lost).splitlines()]
    [line] = [each for each in lines if each["requestId"] == answer.headers["x-request-id"]]
    assert (line["consumer"], line["keyVersion"], line["model"], line["status"]) == (
        "chat",
        "2",
        "llama",
        200,
    )
    assert (line["path"], line["protocol"], line["upstreamStatus"]) == (
        "/chat/completions",
        "openai",
        "200",
    )
    secret = key.split("_")[3]
    for log in ("access.log", "error.log"):
        assert secret not in (clean.proxy.directory / log).read_text()


def test_every_line_of_the_access_log_is_json_whatever_was_sent(clean):
    key = clean.proxy.key("chat", 3)
    odd = (
        '/llama/v1/"},{"a":"',
        "/%22%0a%00/v1/models",
        "/llama/v1/models%0d%0a{}",
        '/"/"',
        "/%5c%22/v1/x",
        "*",
        '/llama/v1/models?"="',
    )
    for method in ("GET", "POST", "A_-Z", "get", '"'):
        for target in odd:
            head = (
                f'{method} {target} HTTP/1.1\r\nHost: a\r\nX-Model: "\\\r\nUser-Agent:'
                f' "\r\nAuthorization: Bearer {key}"\r\nConnection: close\r\n\r\n'
            )
            clean.proxy.raw(head.encode())
            clean.proxy.raw(head.replace(f'{key}"', key).encode())
    last = clean.proxy.call("GET", "/llama/v1/models", key)
    lines = [json.loads(line) for line in clean.proxy.access_log(last).splitlines()]
    assert sum(line["method"] == "A_-Z" for line in lines) >= len(odd)
    assert len({line["requestId"] for line in lines}) == len(lines)
