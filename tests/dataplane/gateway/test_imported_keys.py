"""Keys that users bring, in a real nginx: they open what derived ones open, whole and exact, and
nothing else does.
"""

from __future__ import annotations

import json

import pytest

from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.stand import LONG_AGO, Proxy, consumer, endpoint, spec

PATH = "/llama/v1/models"
ENCRYPTED = {"secure": "[secret]"}
KEY = "sk-live-Zt7Qm2Lx9Rk4Vw8Nc3Hd6Bp1Jg5Ys0Ff"
BASE64 = "qT8/x2Wv+9Zk1Lm4Rb7Nc0Hd3Gf6Js5Yp2Ua+8EtQ1Ko=="
FORMER = "9f2c4e81b7d3a6058c1e4f72d9b0a3658e7c1d24f9a0b3c6d5e8f71204a9bc36"
FOREIGN = "tok.Vw8Nc3Hd6Bp1Jg5Ys0FfZt7Qm2Lx9Rk4~Aa1Bb2Cc3"


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    llama, mistral = Backend().start(), Backend().start()
    own = {("legacy", 1): KEY, ("legacy", 2): BASE64, ("former", 1): FORMER, ("other", 1): FOREIGN}
    proxy = Proxy(tmp_path_factory.mktemp("own"), own=own)
    consumers = {
        "legacy": consumer(keys=[3, 2, 1], importedKeys={1: ENCRYPTED, 2: ENCRYPTED}),
        "former": consumer(
            keys=[1], importedKeys={1: ENCRYPTED}, expires={1: LONG_AGO.isoformat()}
        ),
        "other": consumer(keys=[1], importedKeys={1: ENCRYPTED}),
    }
    endpoints = [
        endpoint("llama", llama.port, ("legacy", "former")),
        endpoint("mistral", mistral.port, ("other",)),
    ]
    try:
        yield proxy.run(spec(), endpoints, consumers), llama
    finally:
        proxy.stop()
        llama.stop()
        mistral.stop()


@pytest.mark.parametrize("key", [KEY, BASE64])
@pytest.mark.parametrize("header", ["Authorization", "X-API-Key"])
def test_a_imported_key_opens_its_model_under_its_consumer_s_name(stand, key, header):
    proxy, llama = stand
    llama.seen.clear()
    answer = proxy.call(
        "GET", PATH, headers={header: f"Bearer {key}" if header == "Authorization" else key}
    )
    assert answer.status == 200
    assert llama.seen[0].all("x-consumer") == ["legacy"]
    assert key not in repr(llama.seen[0].headers)
    [line] = [
        each
        for each in map(json.loads, proxy.access_log(answer).splitlines())
        if each["requestId"] == answer.headers["x-request-id"]
    ]
    assert (line["consumer"], line["keyVersion"]) == ("legacy", "1" if key == KEY else "2")


def test_derived_versions_of_the_same_consumer_go_on_beside_it(stand):
    proxy, _ = stand
    assert proxy.call("GET", PATH, proxy.key("legacy", 3)).status == 200
    # The version that was imported has no derived twin.
    assert proxy.call("GET", PATH, proxy.key("legacy", 1)).status == 401


@pytest.mark.parametrize(
    "wrong",
    [
        KEY.swapcase(),
        KEY[:-8] + KEY[-8:].lower(),
        KEY[:-1],
        KEY[1:],
        f"{KEY}=",
        f"x{KEY[1:]}",
        "A" * 32 + KEY[-8:],
        KEY[-8:],
        BASE64.rstrip("="),
        f"{KEY},{BASE64}",
        f"{KEY} {KEY}",
    ],
)
def test_what_is_not_the_whole_key_opens_nothing(stand, wrong):
    proxy, llama = stand
    llama.seen.clear()
    assert proxy.call("GET", PATH, wrong).status == 401
    assert proxy.call("GET", PATH, headers={"X-API-Key": wrong}).status == 401
    assert not llama.seen


def test_two_different_keys_at_once_are_none(stand):
    proxy, _ = stand
    assert proxy.call("GET", PATH, KEY, headers={"X-API-Key": BASE64}).status == 401
    assert proxy.call("GET", PATH, KEY, headers={"X-API-Key": KEY}).status == 200


def test_an_expired_one_and_one_of_another_model_are_refused_like_derived_ones(stand):
    proxy, _ = stand
    expired = proxy.call("GET", PATH, FORMER)
    assert expired.status == 401
    assert b"has expired" in expired.body
    assert proxy.call("GET", PATH, FOREIGN).status == 404
    assert proxy.call("GET", "/mistral/v1/models", FOREIGN).status == 200
