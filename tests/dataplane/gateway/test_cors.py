"""Web pages: those of listed origins get permission, others none, and permission is no key."""

from __future__ import annotations

import pytest

CHAT = "/llama/v1/chat/completions"


@pytest.mark.parametrize("origin", ["https://chat.example", "http://localhost:3000"])
def test_a_preflight_from_a_listed_origin_passes_without_a_key(clean, origin):
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    answer = clean.proxy.call("OPTIONS", CHAT, headers=asked)
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == origin
    assert "authorization" in answer.headers["access-control-allow-headers"]
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert not clean.seen


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "https://chat.example.evil", "null", "https://chat.example:444", ""],
)
def test_a_preflight_from_elsewhere_is_refused(clean, origin):
    answer = clean.proxy.call(
        "OPTIONS", CHAT, headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
    )
    assert answer.status == 401
    assert "access-control-allow-origin" not in answer.headers


def test_an_answer_names_its_origin_only_when_that_is_listed(clean):
    key = clean.proxy.key("chat", 3)
    listed = clean.proxy.call(
        "GET", "/llama/v1/models", key, headers={"Origin": "https://chat.example"}
    )
    assert listed.headers["access-control-allow-origin"] == "https://chat.example"
    assert "access-control-allow-methods" not in listed.headers
    other = clean.proxy.call(
        "GET", "/llama/v1/models", key, headers={"Origin": "https://evil.example"}
    )
    assert other.status == 200
    assert "access-control-allow-origin" not in other.headers
