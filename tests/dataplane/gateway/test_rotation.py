"""Keys change under load: old, both, new. Nobody with a valid key is refused, and the retired key
is dead afterwards.
"""

from __future__ import annotations

import http.client
import threading
from contextlib import closing
from datetime import date

import pytest

from inferplan.components.gateway import keys
from inferplan.components.gateway.proxy_keys import end_of
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.connection import Connection
from tests.dataplane.gateway.stand import SEED, Proxy, consumer, endpoint, spec, wait_for
from tests.patience import PATIENCE_SECONDS

CLIENTS = 4


@pytest.fixture
def backend():
    backend = Backend().start()
    yield backend
    backend.stop()


@pytest.fixture
def proxy(tmp_path):
    proxy = Proxy(tmp_path)
    yield proxy
    proxy.stop()


class _Clients:
    """Clients that keep asking with the key that is current, each on connections of its own, and
    count what they get.
    """

    def __init__(self, proxy, key):
        self.proxy = proxy
        self.key = key
        self.answers = dict.fromkeys(range(CLIENTS), 0)
        self.wrong = []
        self.done = threading.Event()
        self.threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(CLIENTS)
        ]
        for thread in self.threads:
            thread.start()

    @property
    def total(self):
        return sum(self.answers.values())

    def _run(self, number):
        while not self.done.is_set():
            # As many as a client sends before it opens another connection; nginx closes idle ones
            # when it reloads.
            with closing(Connection(self.proxy.port)) as connection:
                for sent in range(20):
                    try:
                        connection.request(
                            "POST",
                            "/llama/v1/completions",
                            body=b"{}",
                            headers={"Authorization": f"Bearer {self.key}"},
                        )
                        response = connection.getresponse()
                    except (
                        http.client.RemoteDisconnected,
                        ConnectionResetError,
                        BrokenPipeError,
                    ) as closed:
                        # A client that reuses a connection must expect it closed while idle; a new
                        # one must be served.
                        if sent == 0:
                            self.wrong.append(closed)
                        break
                    response.read()
                    if response.status != 200:
                        self.wrong.append(response.status)
                    self.answers[number] += 1

    def until(self, total):
        wait_for(lambda: self.total >= total, f"{total} answers")

    def change_to(self, key):
        """Returns when no client can send the former key any more: each has had two answers since,
        one to a call of before.
        """
        self.key = key
        before = dict(self.answers)
        wait_for(
            lambda: all(self.answers[each] >= before[each] + 2 for each in before),
            "every client has the new key",
        )

    def finish(self):
        self.done.set()
        for thread in self.threads:
            thread.join(PATIENCE_SECONDS)


@pytest.mark.parametrize("requests", [800, pytest.param(10_000, marks=pytest.mark.full)])
def test_no_request_is_refused_while_keys_go_from_old_to_both_to_new(proxy, backend, requests):
    endpoints = [endpoint("llama", backend.port, ("chat",))]
    old, new = proxy.key("chat", 1), proxy.key("chat", 2)
    proxy.run(spec(), endpoints, {"chat": consumer(keys=[1])})
    assert proxy.call("POST", "/llama/v1/completions", new, b"{}").status == 401
    clients = _Clients(proxy, old)
    try:
        clients.until(requests // 4)
        proxy.reload(spec(), endpoints, {"chat": consumer(keys=[2, 1])})
        clients.until(requests // 2)
        # A worker that ends still answers one call on each connection that was in use.
        wait_for(lambda: proxy.workers() == proxy.listening(), "the old workers have ended")
        clients.change_to(new)
        clients.until(requests * 3 // 4)
        proxy.reload(spec(), endpoints, {"chat": consumer(keys=[2])})
        assert proxy.call("POST", "/llama/v1/completions", old, b"{}").status == 401
        clients.until(requests)
    finally:
        clients.finish()
    assert clients.wrong == []
    assert clients.total >= requests
    assert proxy.call("POST", "/llama/v1/completions", old, b"{}").status == 401
    assert proxy.call("POST", "/llama/v1/completions", new, b"{}").status == 200


class _Servers:
    """Servers of a model that accept the keys that theirs were started with; a rollout lets both
    answer for a while.
    """

    def __init__(self, backend, *accepted):
        self.accepted = list(accepted)
        self.backend = backend

    def denied(self):
        presented = {
            value.removeprefix("Bearer ")
            for each in self.backend.seen
            for value in each.all("authorization")
        }
        self.backend.seen.clear()
        return {key for key in presented if not all(key in keys for keys in self.accepted)}


def test_no_request_is_refused_while_the_seed_changes(proxy, backend):
    """In the order of an update: the gateway, then servers that start while those of before still
    answer.
    """
    endpoints, consumers = (
        [endpoint("llama", backend.port, ("chat",))],
        {"chat": consumer(keys=[1], expires={})},
    )
    old, new = SEED, SEED.swapcase()
    old_key, new_key = (keys.server_key(each, "llama") for each in (old, new))
    proxy.run(spec(), endpoints, consumers)
    servers = _Servers(backend, {old_key})
    clients = _Clients(proxy, keys.consumer_key(old, "chat", 1))
    try:
        clients.until(200)
        proxy.seed, proxy.previous_seed = new, old
        proxy.reload(spec(), endpoints, consumers)
        servers.accepted.append({old_key, new_key})
        clients.until(clients.total + 200)
        assert servers.denied() == set()
        servers.accepted.pop(0)
        clients.change_to(keys.consumer_key(new, "chat", 1))
        proxy.previous_seed = None
        proxy.reload(spec(), endpoints, consumers)
        clients.until(clients.total + 200)
        assert servers.denied() == set()
        servers.accepted = [{new_key}]
        clients.until(clients.total + 200)
    finally:
        clients.finish()
    assert servers.denied() == set()
    assert clients.wrong == []
    assert (
        proxy.call("POST", "/llama/v1/completions", keys.consumer_key(old, "chat", 1), b"{}").status
        == 401
    )


def test_with_two_seeds_a_key_of_neither_and_a_mixture_of_both_are_denied(proxy, backend):
    proxy.previous_seed = SEED.swapcase()
    proxy.run(spec(), [endpoint("llama", backend.port, ("chat",))], {"chat": consumer(keys=[1])})
    valid = [keys.consumer_key(each, "chat", 1) for each in (SEED, SEED.swapcase())]
    mixed = valid[0][: -keys.CHECK_DIGITS] + valid[1][-keys.CHECK_DIGITS :]
    others = [keys.consumer_key(SEED[::-1], "chat", 1), keys.consumer_key(SEED, "chat", 2), mixed]
    asked = [
        proxy.call("POST", "/llama/v1/completions", each, b"{}").status
        for each in (*valid, *others)
    ]
    assert asked == [200, 200, 401, 401, 401]


def test_a_consumer_that_is_taken_off_a_model_is_refused_after_the_change(proxy, backend):
    consumers = {"chat": consumer(keys=[1])}
    proxy.run(spec(), [endpoint("llama", backend.port, ("chat",))], consumers)
    assert proxy.call("POST", "/llama/v1/completions", proxy.key("chat"), b"{}").status == 200
    proxy.reload(spec(), [endpoint("llama", backend.port, ())], consumers)
    assert proxy.call("POST", "/llama/v1/completions", proxy.key("chat"), b"{}").status == 404


def test_a_configuration_that_nginx_refuses_is_not_started_and_the_old_one_goes_on(proxy, backend):
    proxy.run(spec(), [endpoint("llama", backend.port, ("chat",))], {"chat": consumer(keys=[1])})
    config = proxy.directory / "nginx.conf"
    config.write_text(config.read_text().replace("pcre_jit on;", "pcre_jit perhaps;"))
    checked = proxy.prepare()
    assert checked.returncode != 0
    assert "perhaps" in checked.stderr
    assert proxy.call("POST", "/llama/v1/completions", proxy.key("chat"), b"{}").status == 200


def test_a_pod_that_sees_other_keys_than_it_was_made_for_does_not_start(proxy, backend):
    endpoints, consumers = (
        [endpoint("llama", backend.port, ("chat",))],
        {"chat": consumer(keys=[1])},
    )
    assert proxy.write(spec(), endpoints, consumers).returncode == 0
    mark = (
        (proxy.directory / "keys.conf").read_text().splitlines()[0].removeprefix("# fingerprint ")
    )
    assert proxy.prepare(KEYS_FINGERPRINT=mark).returncode == 0
    refused = proxy.prepare(KEYS_FINGERPRINT="0" * 16)
    assert refused.returncode == 1
    assert "do not have the expected fingerprint" in refused.stderr


@pytest.mark.parametrize(
    ("resolv", "said"),
    [
        ("search a.svc.cluster.local svc.cluster.local\n", "no nameserver"),
        ("nameserver 10.0.0.1\n", "no search domain"),
        ("nameserver 10.0.0.1\nsearch example.com\n", "no search domain"),
        ("nameserver 1;}evil{\nsearch a.svc.c svc.c\n", "no nameserver"),
    ],
)
def test_a_pod_without_cluster_dns_says_so_and_stops(proxy, backend, resolv, said):
    proxy.write(spec(), [endpoint("llama", backend.port, ("chat",))], {"chat": consumer(keys=[1])})
    (proxy.directory / "resolv.conf").write_text(resolv)
    refused = proxy.prepare()
    assert refused.returncode != 0
    assert said in refused.stderr


def test_resolvers_of_both_families_and_other_cluster_domains_are_taken_over(proxy, backend):
    proxy.write(spec(), [endpoint("llama", backend.port, ("chat",))], {"chat": consumer(keys=[1])})
    (proxy.directory / "resolv.conf").write_text(
        "nameserver 10.96.0.10\nnameserver fd00::a\nsearch models.svc.k8s.acme. svc.k8s.acme"
        " k8s.acme\n"
    )
    assert proxy.prepare().returncode == 0
    runtime = (proxy.directory / "runtime.conf").read_text()
    assert "resolver 10.96.0.10 [fd00::a] valid=10s;" in runtime
    assert '".models.svc.k8s.acme"' in runtime
    assert '"k8s.acme"' in runtime


def test_a_key_is_valid_through_its_last_day_in_utc():
    assert end_of(date(2027, 1, 31)) == 1801439999
