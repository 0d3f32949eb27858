"""Grafana dashboards: every metric is pinned or recorded, and a real Prometheus that scrapes
stand-ins leaves no panel without data.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml

from inferplan.components.monitoring.dashboards import dashboards
from inferplan.components.monitoring.objectives import WatchedModel
from inferplan.components.monitoring.rules import WatchedStack, rule_groups
from inferplan.components.monitoring.slo_spec import SloSpec
from inferplan.components.preheat.payload.progress import exposition
from tests.ports import free_port
from tests.unit.gateway.whole_stack import refusals
from tests.unit.monitoring.test_scraping import whole
from tests.unit.monitoring.test_vocabulary import names_in, readable

CHAT = WatchedModel(
    name="chat",
    engine="vllm",
    min_replicas=1,
    max_replicas=4,
    slo=SloSpec.model_validate({"ttft": "1s", "availability": 99.5}),
    counted=True,
)
STACK = WatchedStack(
    namespace="inference",
    models=[CHAT],
    expiries={("team", 1): date(2030, 1, 1)},
    monthly_usd=1000,
    node_prices=[(1.0, ["chat"])],
)
CHOSEN = {"$model": "chat", "$consumer": "team"}


def queries() -> dict[str, str]:
    """Every query of every panel, by dashboard, panel and legend."""
    made = {}
    for name, text in dashboards("inference").items():
        for panel in json.loads(text)["panels"]:
            for target in panel["targets"]:
                made[f"{name}: {panel['title']}: {target['legendFormat']}"] = target["expr"]
    return made


def test_every_query_reads_pinned_or_recorded_metrics():
    recorded = {
        rule["record"]
        for group in rule_groups(STACK)["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    known = readable({"vllm"}) | recorded
    for place, query in queries().items():
        assert names_in(query), place
        assert names_in(query) <= known, place


def test_the_same_stack_gives_the_same_bytes_and_panels_do_not_overlap():
    made = dashboards("inference")
    assert made == dashboards("inference")
    assert {name.removeprefix("inferplan-").removesuffix(".json") for name in made} == {
        "fleet",
        "model",
        "consumers",
        "gateway",
        "preheats",
    }
    for text in made.values():
        document = json.loads(text)
        assert len(document["uid"]) <= 40
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in document["panels"]]
        assert len(set(places)) == len(places)


def test_dashboards_are_configmaps_for_the_sidecar_and_pass_the_policies():
    recording = whole(scrape={}, rules={}, dashboards={})
    maps = [
        each.inputs
        for each in recording.of_type("kubernetes:core/v1:ConfigMap")
        if each.name.startswith("inferplan-")
    ]
    assert len(maps) == 5
    for each in maps:
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        [(name, text)] = each["data"].items()
        assert json.loads(text)["panels"], name
    assert refusals(recording) == refusals(whole())


def page(began: float) -> str:
    """What the pods of a stack under load expose now: engine, gateway, preheat and
    kube-state-metrics, as one page.
    """
    n = int(10 * (time.monotonic() - began)) + 1
    bounds = {"0.5": 0.7, "1.0": 0.9, "+Inf": 1.0}

    def histogram(name: str, labels: str = "") -> list[str]:
        buckets = [
            f'{name}_bucket{{{labels}le="{bound}"}} {int(share * 10 * n)}'
            for bound, share in bounds.items()
        ]
        return [
            *buckets,
            f"{name}_sum{{{labels.rstrip(',')}}} {3 * n}",
            f"{name}_count{{{labels.rstrip(',')}}} {10 * n}",
        ]

    vllm = [
        "vllm:num_requests_running 3",
        "vllm:num_requests_waiting 1",
        "vllm:kv_cache_usage_perc 0.4",
        f"vllm:prompt_tokens_total {100 * n}",
        f"vllm:generation_tokens_total {50 * n}",
        f'http_requests_total{{handler="/v1/completions",status="2xx"}} {10 * n}',
        f'http_requests_total{{handler="/v1/completions",status="5xx"}} {n}',
    ]
    for name in (
        "time_to_first_token_seconds",
        "request_time_per_output_token_seconds",
        "request_queue_time_seconds",
    ):
        vllm += histogram(f"vllm:{name}")
    return "\n".join(vllm) + "\n"


def gateway_page(began: float) -> str:
    n = int(10 * (time.monotonic() - began)) + 1
    common = 'model="chat",route="openai",consumer="team"'
    lines = [
        f'inferplan_gateway_answers_total{{{common},code="{code}"}} {share * n}'
        for code, share in (("2xx", 8), ("4xx", 2), ("5xx", 1))
    ]
    name = "inferplan_gateway_request_duration_seconds"
    lines += [
        f'{name}_bucket{{model="chat",le="{bound}"}} {share * n}'
        for bound, share in (("0.5", 5), ("1", 9), ("+Inf", 10))
    ]
    lines += [
        'inferplan_gateway_requests_in_flight{model="chat"} 4',
        f'inferplan_gateway_requests_total{{model="chat"}} {10 * n}',
    ]
    return "\n".join(lines) + "\n"


KUBE = """kube_pod_info{namespace="inference",pod="chat-1-abcde",node="n1"} 1
kube_pod_status_unschedulable{namespace="inference",pod="chat-1-abcde"} 0
kube_job_failed{namespace="inference",condition="true",job_name="chat-preheat-0a"} 0
"""
PREHEAT = {"job": "chat", "state": "running", "bytes": 7, "total": 9, "bytesPerSecond": 3}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("prometheus is not installed; apt-get install prometheus")
    began, directory = time.monotonic(), tmp_path_factory.mktemp("prometheus")
    pages = {
        "/vllm": lambda: page(began),
        "/gateway": lambda: gateway_page(began),
        "/kube": lambda: KUBE,
        "/preheat": lambda: exposition(PREHEAT),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages[self.path]().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        target = f"127.0.0.1:{server.server_port}"
        # The labels that PodMonitors add to the pods of a model, and the namespace that the
        # operator adds to all.
        labels = {
            "vllm": {"namespace": "inference", "model": "chat", "engine": "vllm", "pod": "chat-1"},
            "kube": {},
        }
        jobs = [
            {
                "job_name": name,
                "metrics_path": f"/{name}",
                "honor_labels": name == "kube",
                "static_configs": [
                    {
                        "targets": [target],
                        "labels": labels.get(name, {"namespace": "inference", "pod": name}),
                    }
                ],
            }
            for name in ("vllm", "gateway", "kube", "preheat")
        ]
        (directory / "rules.yml").write_text(yaml.safe_dump(rule_groups(STACK)))
        every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        (directory / "prometheus.yml").write_text(
            yaml.safe_dump(
                {
                    "global": every,
                    "rule_files": [str(directory / "rules.yml")],
                    "scrape_configs": jobs,
                }
            )
        )
        port = free_port()
        options = [
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with (directory / "log").open("w") as log:
            process = subprocess.Popen([binary, *options], stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            server.shutdown()


def answer(address: str, query: str) -> list[Any]:
    for variable, value in CHOSEN.items():
        query = query.replace(variable, value)
    try:
        with urllib.request.urlopen(  # noqa: S310 - a server of this test
            f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=10
        ) as reply:
            return json.load(reply)["data"]["result"]
    except OSError:
        return []


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_no_panel_is_without_data_in_a_real_prometheus(prometheus):
    left = queries()
    deadline = time.monotonic() + 90
    while left and time.monotonic() < deadline:
        left = {place: query for place, query in left.items() if not answer(prometheus, query)}
        time.sleep(1 if left else 0)  # nothing tells when the next evaluation ends
    assert left == {}


def test_variables_are_read_from_metrics_of_the_stack():
    for text in dashboards("inference").values():
        for variable in json.loads(text)["templating"]["list"][1:]:
            assert re.fullmatch(
                r'label_values\(inferplan:[a-z0-9_:]+\{namespace="inference"\}, [a-z]+\)',
                variable["query"],
            )
