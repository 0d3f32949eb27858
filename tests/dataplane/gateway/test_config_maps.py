"""A configuration that one ConfigMap cannot hold works like the undivided one."""

from __future__ import annotations

import json

import pytest

from inferplan.components.gateway.config_maps import divided
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec

MODELS = 300
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def proxy(tmp_path):
    made = Proxy(tmp_path)
    yield made
    made.stop()


def test_nginx_reads_the_maps_of_other_config_maps(proxy):
    backend = Backend().start()
    try:
        endpoints = [
            endpoint(f"model-{number}", backend.port, ("chat",)) for number in range(MODELS)
        ]
        proxy.write(spec(), endpoints, {name: consumer(keys=[1]) for name in ("chat", "other")})
        main = proxy.directory / "nginx.conf"
        whole = main.read_text()
        first, *others = divided({"nginx.conf": whole}, str(proxy.directory), len(whole) // 2)
        sizes = [len(text) for part in (first, *others) for text in part.values()]
        assert len(sizes) > 2
        assert max(sizes) <= len(whole) // 2
        for part in (first, *others):
            for name, text in part.items():
                (proxy.directory / name).write_text(text)
        assert proxy.prepare().returncode == 0
        proxy.start()
        body = json.dumps({"model": "model-7"}).encode()
        for path in ("/model-7/v1/completions", "/v1/completions"):
            for who, status in (("chat", 200), ("other", 404)):
                assert proxy.call("POST", path, proxy.key(who), body, JSON).status == status
    finally:
        backend.stop()
