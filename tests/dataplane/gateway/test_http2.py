"""HTTP/2 clients, as some ingress controllers are, meet the same lists."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.engine_routes import ALLOWED
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.dataplane.gateway.variants import variants

COUNT = 1000


@pytest.fixture
def curl():
    found = shutil.which("curl")
    if found is None or "HTTP2" not in subprocess.run([found, "--version"], check=True, capture_output=True, text=True).stdout:
        pytest.skip("there is no curl with HTTP/2 on PATH")
    return found


@pytest.fixture
def apart(tmp_path):
    llama, mistral = Backend().start(), Backend().start()
    # nginx before 1.25.1 speaks either HTTP/1 or HTTP/2 on a clear-text port, so this stand listens for HTTP/2 alone.
    proxy = Proxy(tmp_path, listen_options=" http2")
    consumers = {"one": consumer(keys=[1]), "two": consumer(keys=[1])}
    try:
        yield (
            proxy.run(spec(), [endpoint("llama", llama.port, ("one",)), endpoint("mistral", mistral.port, ("two",))], consumers),
            llama,
            mistral,
        )
    finally:
        proxy.stop()
        llama.stop()
        mistral.stop()


def _ask(curl, proxy, targets, key, folder):
    """The status of each target. Each has a host name of its own: curl 7.88 breaks a connection that it uses again this way."""
    lines = ["http2-prior-knowledge", "path-as-is", "globoff", "silent", 'write-out = "%{http_code} %{http_version}\\n"']
    lines.append(f'connect-to = "::127.0.0.1:{proxy.port}"')
    lines += [f'header = "Authorization: Bearer {key}"'] if key else []
    for number, target in enumerate(targets):
        lines += [f'url = "http://host-{number}.test{target}"', f'output = "{folder}/answer"']
    config = folder / "curl.conf"
    config.write_text("\n".join(lines))
    said = subprocess.run([curl, "-K", str(config)], check=False, capture_output=True, text=True, timeout=120).stdout.split("\n")
    return [tuple(line.split()) for line in said if line]


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 12))])
def test_spellings_of_paths_pass_nothing_over_http2_that_is_not_listed(apart, curl, tmp_path, seed):
    proxy, llama, mistral = apart
    plain = (each for each in variants(COUNT * 3, seed=seed) if each.startswith("/") and each.isascii() and each.isprintable())
    targets = [each for each in plain if not set(each) & set(' "\\#')][:COUNT]
    assert len(targets) == COUNT
    for who, own, foreign in (("one", llama, mistral), ("two", mistral, llama), (None, None, None)):
        llama.seen.clear()
        mistral.seen.clear()
        answers = _ask(curl, proxy, targets, proxy.key(who) if who else None, tmp_path)
        assert len(answers) == COUNT
        # 000: a path that nginx takes for a breach of the protocol ends the stream without an answer.
        assert {version for status, version in answers if status != "000"} == {"2"}
        assert sum(status == "000" for status, _ in answers) < COUNT / 10
        if own is None or foreign is None:
            assert {status for status, _ in answers} <= {"000", "400", "401"}
            assert not llama.seen
            assert not mistral.seen
            continue
        assert not foreign.seen
        assert len(own.seen) == sum(status == "200" for status, _ in answers) > 10
        assert {(each.method, each.target) for each in own.seen} <= ALLOWED
        assert all(each.all("x-consumer") == [who] for each in own.seen)
