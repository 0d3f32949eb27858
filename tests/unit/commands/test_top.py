"""`inferplan top`: figures from Prometheus or the pods, in a table of 80 columns or as JSON, with
the reads of `status` alone.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from inferplan.commands.main import run
from inferplan.commands.top import command as command_module
from inferplan.commands.top import pod_metrics, top
from inferplan.commands.top.pod_metrics import PodMetrics, chosen, parsed, quantile_of
from inferplan.status.status import read_state
from inferplan.workspace.contract import contract_of
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).parents[3]
MODEL = "llama-3-8b"
POD = {
    "metadata": {
        "name": "llama-3-8b-6d5f-abcde",
        "namespace": "inference",
        "labels": {"app.kubernetes.io/component": "model", "app.kubernetes.io/instance": MODEL},
    },
    "spec": {"containers": [{"name": "server"}]},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
DEPLOYMENT = {
    "metadata": {"name": MODEL, "labels": POD["metadata"]["labels"]},
    "spec": {"replicas": 2},
    "status": {"readyReplicas": 2},
}
PAGE = """# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_running{{engine="0",model_name="llama-3-8b"}} 3.0
vllm:num_requests_waiting{{engine="0",model_name="llama-3-8b"}} 2.0
vllm:kv_cache_usage_perc{{engine="0",model_name="llama-3-8b"}} 0.5
vllm:generation_tokens_total{{engine="0",model_name="llama-3-8b"}} {tokens}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.5",model_name="llama-3-8b"}} {fast}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="1.0",model_name="llama-3-8b"}} {all}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="llama-3-8b"}} {all}
"""


@pytest.fixture(scope="module")
def workspace():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        yield open_workspace("local")


def cluster(path: str) -> dict[str, Any]:
    kinds = {"pods": [POD], "deployments": [DEPLOYMENT]}
    return {"items": kinds.get(path.rpartition("/")[2], [])}


@contextmanager
def prometheus(values: dict[str, float]):
    """A server with Prometheus's query API: the value whose key is in the query, for the model of
    the tests.
    """
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            seen.append(self.headers.get("Authorization"))
            found = [value for part, value in values.items() if part in query]
            result = [
                {"metric": {"namespace": "inference", "model": MODEL}, "value": [1, str(value)]}
                for value in found[:1]
            ]
            body = json.dumps(
                {"status": "success", "data": {"resultType": "vector", "result": result}}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


FIGURES = {
    "num_requests_waiting": 12,
    "num_requests_running": 48,
    "generation_tokens_total": 23456.7,
    "histogram_quantile(0.95, sum by (namespace, model, le) (rate(vllm:time_to_first": 0.734,
    "kv_cache_usage_perc": 0.87,
}


def called(monkeypatch, capsys, *arguments: str) -> tuple[object, str, str]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    monkeypatch.setattr(command_module, "reader_of", lambda *_: cluster)
    monkeypatch.setattr(top, "answering_ports", lambda _: {})
    with pytest.raises(SystemExit) as ended:
        run(["top", "local", *arguments])
    out = capsys.readouterr()
    return ended.value.code or 0, out.out, out.err


def test_a_table_of_80_columns_has_every_figure(monkeypatch, capsys):
    with prometheus(FIGURES) as (address, _):
        code, out, err = called(monkeypatch, capsys, "--once", "--prometheus", address)
    assert code == 0, err
    [line] = [line for line in out.splitlines() if line.strip().startswith(MODEL)]
    assert line.split() == [MODEL, "2/2", "48", "12", "23.5k", "0.73", "s", "87%", "2", "-"]
    assert max(map(len, out.splitlines())) <= 80


def test_json_for_scripts(monkeypatch, capsys):
    with prometheus(FIGURES) as (address, seen):
        monkeypatch.setenv("INFERPLAN_PROMETHEUS_AUTHORIZATION", "Bearer canary-top-token")
        code, out, err = called(monkeypatch, capsys, "--once", "--json", "--prometheus", address)
    document = json.loads(out)
    [row] = [each for each in document["models"] if each["name"] == MODEL]
    assert (code, document["version"], document["source"]) == (0, 1, "prometheus")
    assert (row["waitingRequests"], row["ttftSecondsP95"], row["accelerators"], row["ready"]) == (
        12,
        0.734,
        2,
        2,
    )
    assert set(seen) == {"Bearer canary-top-token"}
    assert "canary-top-token" not in out + err


def test_without_a_source_the_replicas_are_shown_and_a_note_says_how_to_get_the_rest(
    monkeypatch, capsys
):
    code, out, err = called(monkeypatch, capsys, "--once")
    assert code == 0
    assert "2/2" in out
    assert "name a Prometheus with --prometheus URL" in err


def test_pods_without_a_cluster_are_an_error_that_names_the_option(monkeypatch, capsys):
    code, out, err = called(monkeypatch, capsys, "--once", "--pods")
    assert (code, out) == (2, "")
    assert "Add --context NAME" in err


def test_a_prometheus_that_does_not_answer_is_an_error_with_a_remedy(monkeypatch, capsys):
    code, out, err = called(monkeypatch, capsys, "--once", "--prometheus", "http://127.0.0.1:9")
    assert (code, out) == (1, "")
    assert "Prometheus at http://127.0.0.1:9 did not answer a query" in err
    assert "port-forward" in err
    assert called(monkeypatch, capsys, "--json")[0] == 2
    assert called(monkeypatch, capsys, "--once", "--prometheus", "ftp://x")[0] == 2


def test_it_reads_what_status_reads_and_nothing_else(workspace):
    of_top, of_status = [], []
    settings = workspace.settings
    from inferplan.commands.top.top import read_top

    read_top(workspace, lambda path: of_top.append(path) or cluster(path), None)
    read_state(
        settings, contract_of(settings), lambda path: of_status.append(path) or cluster(path)
    )
    assert of_top == of_status


def test_pods_give_rates_and_quantiles_between_two_reads(workspace, monkeypatch):
    pages = iter(
        [PAGE.format(tokens=1000, fast=10, all=10), PAGE.format(tokens=1500, fast=20, all=30)]
    )
    paths = []
    clock = iter([100.0, 110.0])
    monkeypatch.setattr(pod_metrics.time, "monotonic", lambda: next(clock))

    def page(*place: str) -> str:
        paths.append(place)
        return next(pages)

    reader = PodMetrics(
        workspace.settings, contract_of(workspace.settings).endpoints, page, cluster
    )
    first, second = reader.figures()[MODEL], reader.figures()[MODEL]
    assert paths[0] == ("llama-3-8b-6d5f-abcde", "8000/proxy/metrics")
    assert first == {"running_requests": 3, "waiting_requests": 2, "kv_cache": 0.5}
    assert second["output_tokens_per_second"] == 50
    # 20 new requests, 10 of them below 0.5 s: the 19th is nine tenths of the way from 0.5 s to 1 s.
    assert second["ttft_seconds_p95"] == pytest.approx(0.95)


def test_samples_are_chosen_as_prometheus_chooses_them():
    page = (
        'http_requests_total{handler="/v1/a",status="5xx"}'
        ' 2\nhttp_requests_total{handler="/docs",status="2xx"} 5\nup 1\n'
    )
    samples = list(parsed(page))
    assert list(chosen(samples, 'http_requests_total{handler=~"/v1/.*"}')) == [
        ({"handler": "/v1/a", "status": "5xx"}, 2)
    ]
    assert [value for _, value in chosen(samples, 'http_requests_total{status!="5xx"}')] == [5]
    assert list(chosen(samples, "up")) == [({}, 1)]
    assert quantile_of({0.5: 0, float("inf"): 0}) is None
    assert quantile_of({0.5: 1, float("inf"): 10}) == 0.5
