"""The metrics that we expose ourselves: the gateway's answers and the sidecar of preheats, as
Prometheus reads them.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import inferplan.components.gateway
import inferplan.components.preheat.sidecar
from inferplan.components.preheat.payload.progress import exposition
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

ANSWERS = Path(inferplan.components.gateway.__file__).parent / "payload" / "answers.js"
SIDECAR = Path(inferplan.components.preheat.sidecar.__file__).parent / "serve_metrics.py"
# nginx's shared dictionaries as njs 0.8 documents them (incr with a start value, keys, get), in
# front of the script itself.
HARNESS = """
const zone = () => { const d = new Map(); return {
    incr: (k, by, start) => { d.set(k, (d.has(k) ? d.get(k) : start) + by); return d.get(k); },
    keys: () => [...d.keys()], get: (k) => d.get(k) }; };
globalThis.ngx = { shared: { answers: zone(), requests: zone() } };
const { default: answers } = await import(process.argv[1]);
const calls = JSON.parse(process.argv[2]);
calls.forEach((variables) => answers.count({ variables }));
ngx.shared.requests.incr('begun chat', 5, 0); ngx.shared.requests.incr('ended chat', 3, 0);
const r = { variables: { counted_models: 'chat embed' }, headersOut: {}, return: (status, body) => console.log(body) };
answers.report(r);
"""


def samples(text: str) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in (
            line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#"
        )
    }


def test_the_gateway_counts_answers_by_model_route_consumer_and_class(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; it runs the gateway's script without nginx")
    script = tmp_path / "answers.mjs"
    script.write_text(ANSWERS.read_text())
    common = {"served_model": "chat", "route": "openai", "consumer": "team"}
    calls = [
        {**common, "status": "200", "request_time": "0.300"},
        {**common, "status": "503", "request_time": "400.000"},
        {**common, "status": "200", "request_time": "0.050"},
        {"served_model": "", "route": "", "consumer": "", "status": "401", "request_time": "0.000"},
    ]
    command = [node, "--input-type=module", "-e", HARNESS, str(script), json.dumps(calls)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    found = samples(done.stdout)
    assert (
        found[
            'inferplan_gateway_answers_total{model="chat",route="openai",consumer="team",code="2xx"}'
        ]
        == 2
    )
    assert (
        found[
            'inferplan_gateway_answers_total{model="chat",route="openai",consumer="team",code="5xx"}'
        ]
        == 1
    )
    assert found['inferplan_gateway_answers_total{model="",route="",consumer="",code="4xx"}'] == 1
    bucket = 'inferplan_gateway_request_duration_seconds_bucket{model="chat",le="%s"}'
    assert [found[bucket % bound] for bound in ("0.1", "0.25", "0.5", "300", "+Inf")] == [
        1,
        1,
        2,
        2,
        3,
    ]
    assert found['inferplan_gateway_request_duration_seconds_sum{model="chat"}'] == pytest.approx(
        400.35
    )
    assert found['inferplan_gateway_requests_total{model="chat"}'] == 5
    assert found['inferplan_gateway_requests_in_flight{model="chat"}'] == 2
    assert found['inferplan_gateway_requests_total{model="embed"}'] == 0
    checker = shutil.which("promtool")
    if checker is not None:
        checked = subprocess.run(
            [checker, "check", "metrics"],
            input=done.stdout,
            check=False,
            capture_output=True,
            text=True,
        )
        assert (checked.returncode, checked.stderr) == (0, "")


def get(port: int, path: str) -> tuple[int, str]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with closing(
                http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
            ) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)  # nothing tells when a process listens


def test_the_sidecar_serves_the_metrics_of_a_run_and_ends_at_once(tmp_path):
    file, port = tmp_path / "chat.prom", free_port()
    process = subprocess.Popen([sys.executable, str(SIDECAR), str(file), str(port)])
    try:
        assert get(port, "/metrics") == (200, "")
        file.write_text(exposition({"job": "chat", "state": "running", "bytes": 7, "total": 9}))
        status, text = get(port, "/metrics")
        assert (status, samples(text)['inferplan_preheat_bytes{model="chat"}']) == (200, 7)
        assert get(port, "/../../etc/passwd")[0] == 404
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
