"""Each consumer's limits, at one replica: how many requests at once, how many a minute, and none of
it at another's expense.
"""

from __future__ import annotations

import json
import threading
import time

import pytest

from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.patience import PATIENCE_SECONDS

PATH = "/llama/v1/completions"


@pytest.fixture
def backend():
    backend = Backend().start()
    yield backend
    backend.stop()


@pytest.fixture
def limited(tmp_path, backend):
    proxy = Proxy(tmp_path)
    consumers = {
        "slow": consumer(keys=[1], limits={"requestsPerMinute": 1, "burst": 2}),
        "narrow": consumer(keys=[1], limits={"concurrentRequests": 1}),
        "free": consumer(keys=[1]),
        "default": consumer(keys=[1], limits={"requestsPerMinute": 1, "burst": 2}),
    }
    try:
        yield proxy.run(spec(), [endpoint("llama", backend.port, tuple(consumers))], consumers)
    finally:
        proxy.stop()


def _statuses(proxy, name, count):
    return [proxy.call("POST", PATH, proxy.key(name), b"{}").status for _ in range(count)]


def test_requests_above_rate_and_burst_are_refused_with_a_pause(limited):
    assert _statuses(limited, "slow", 4) == [200, 200, 200, 429]
    answer = limited.call("POST", PATH, limited.key("slow"), b"{}")
    assert answer.headers["retry-after"] == "60"
    error = json.loads(answer.body)["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")


def test_one_consumer_s_limit_touches_no_other(limited):
    assert 429 in _statuses(limited, "slow", 5)
    assert set(_statuses(limited, "free", 20)) == {200}
    # A name that is a word of nginx's own is a consumer like any other.
    assert _statuses(limited, "default", 4) == [200, 200, 200, 429]


def test_a_second_request_at_once_is_refused_and_the_next_one_passes(limited, backend):
    answers = []
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer"
        f" {limited.key('narrow')}\r\nContent-Length: 14\r\nConnection: close\r\n\r\n"
    )
    first = threading.Thread(
        target=lambda: answers.append(limited.raw(head.encode() + b'{"hold": true}'))
    )
    first.start()
    assert backend.holding.wait(PATIENCE_SECONDS)
    refused = limited.call("POST", PATH, limited.key("narrow"), b"{}")
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    backend.permits.put("go on")
    first.join(PATIENCE_SECONDS)
    assert [answer.split()[1] for answer in answers] == [b"200"]
    # nginx frees the slot when it ends the connection, which a client may see a moment earlier.
    end = time.monotonic() + PATIENCE_SECONDS
    while (
        answer := limited.call("POST", PATH, limited.key("narrow"), b"{}")
    ).status == 429 and time.monotonic() < end:
        pass
    assert answer.status == 200


def test_refusals_for_other_reasons_cost_nothing(limited):
    for _ in range(5):
        assert limited.call("POST", "/llama/v1/nothing", limited.key("slow"), b"{}").status == 404
    assert _statuses(limited, "slow", 3) == [200, 200, 200]
