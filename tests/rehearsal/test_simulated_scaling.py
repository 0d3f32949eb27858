"""One load on the rehearsal that answers: stubs, nginx, a real Prometheus with the stack's rules,
the real KEDA, and Kubernetes' HPA.

`inferplan simulate` gets the same trace under the scaling rule of the stack and must agree; it
knows the times of the stubs, as it knows those of kernels. The panels of the dashboards on models
must have data. INFERPLAN_UPDATE_PICTURES=1 draws them for the docs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from inferplan.components.monitoring.rules import rule_groups
from inferplan.errors import ToolchainError
from inferplan.kube.facts import read
from inferplan.predict.batches import Replica
from inferplan.predict.simulation import Simulation, rule_of
from inferplan.predict.traces import Trace, read_trace
from inferplan.rehearsal.cluster import start
from inferplan.stackfile.watched import watched
from inferplan.workspace.workspace import open_workspace
from tests.dataplane.gateway.stand import nginx_binary
from tests.rehearsal.commands import ROOT, STACK, inferplan
from tests.rehearsal.keda_operator import keda
from tests.rehearsal.operator_programs import await_ready, free_ports, running
from tests.rehearsal.panel_pictures import Drawn, drawn, picture

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.full,
    pytest.mark.timeout(3600),
]  # the first build of KEDA takes minutes

PROFILE = "ttft=40ms,itl=200ms,tokensPerSecond=2000"
ANSWER, SLOTS, LATE = 10, 4, 2.0
# A replica answers two requests per second, and three are not enough for the rush: the choice of
# replicas, which is random on both sides, then changes few of the late requests.
PHASES = ((67, 1), (150, 7), (290, 1))
SCRAPE_SECONDS = 30
"""The default of `monitoring.scrape.intervalSeconds`."""
AGREED = 0.15


class StubSteps:
    """The times of a stub with PROFILE: it reads all prompts at once, and a token takes as long
    with one request as with four.
    """

    def prefill(self, *_: int) -> float:
        return 0.001

    def decode(self, *_: int) -> float:
        return 0.2


@dataclass
class Played:
    """Times to the first token, requests without an answer, and the changes of the number of
    replicas with their seconds.
    """

    first: list[float] = field(default_factory=list)
    lost: int = 0
    changes: list[tuple[float, int]] = field(default_factory=list)

    def replica_minutes(self, end: float) -> float:
        times = [*(second for second, _ in self.changes), end]
        return (
            sum(
                count * (min(after, end) - before)
                for (before, count), after in zip(self.changes, times[1:], strict=True)
            )
            / 60
        )


def write_trace(path: Path) -> None:
    random, now, times = np.random.default_rng(7), 0.0, [0.0]
    for seconds, rate in PHASES:
        times += sorted((now + random.uniform(0, seconds, seconds * rate)).tolist())
        now += seconds
    rows = (
        {"timestamp": round(each * 1000), "input_length": 10, "output_length": ANSWER}
        for each in times
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@contextlib.contextmanager
def real_prometheus(
    directory: Path, port: int, targets: str, rules: dict[str, Any]
) -> Iterator[None]:
    """Prometheus from PATH, which finds the stubs of Ready pods as it finds pods in a cluster."""
    (directory / "rules.yml").write_text(yaml.safe_dump(rules))
    job = {"job_name": "models", "http_sd_configs": [{"url": targets, "refresh_interval": "5s"}]}
    document = {
        "global": {
            "scrape_interval": f"{SCRAPE_SECONDS}s",
            "scrape_timeout": "5s",
            "evaluation_interval": "15s",
        },
        "rule_files": ["rules.yml"],
        "scrape_configs": [job],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(document))
    options = [
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = directory / "prometheus.log"
    with running([str(shutil.which("prometheus")), *options], log) as process:
        await_ready(process, f"http://127.0.0.1:{port}/-/ready", log)
        yield


async def ask(port: int, key: str, at: float, began: float, played: Played) -> None:
    """One request of the trace, in a stream, at its second."""
    body = {
        "model": "ranged",
        "prompt": "one two three",
        "max_tokens": ANSWER,
        "ignore_eos": True,
        "stream": True,
    }
    content = json.dumps(body).encode()
    head = (
        "POST /ranged/v1/completions HTTP/1.1\r\nHost: llm.test\r\nAuthorization: Bearer"
        f" {key}\r\nContent-Type: application/json\r\n"
    )
    await asyncio.sleep(max(0.0, at - (time.monotonic() - began)))
    sent = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"{head}Connection: close\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
    )
    try:
        if b" 200 " not in await reader.readline():
            played.lost += 1
            return
        await reader.readuntil(b"data: ")
        played.first.append(time.monotonic() - sent)
        await reader.read()
    except (OSError, asyncio.IncompleteReadError):
        played.lost += 1
    finally:
        writer.close()


async def play(trace: Trace, port: int, key: str, played: Played) -> None:
    began = time.monotonic()
    await asyncio.gather(*(ask(port, key, at, began, played) for at in trace.arrivals.tolist()))


@contextlib.contextmanager
def followed(api: Any, played: Played) -> Iterator[None]:
    """Notes each change of the replicas of the Deployment until the block ends."""
    began = time.monotonic()
    watch = api.watch(
        "/apis/apps/v1/namespaces/inference/deployments",
        {"fieldSelector": "metadata.name=ranged", "timeoutSeconds": "1800"},
    )

    def follow() -> None:
        for kind, live in watch:
            count = live.get("status", {}).get("replicas", 0) if kind != "BOOKMARK" else None
            if count is not None and (not played.changes or played.changes[-1][1] != count):
                played.changes.append((time.monotonic() - began, count))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        watch.close()
        thread.join()


def write_stack(path: Path, port: int) -> None:
    """The local stack with one model in a range, whose Prometheus has this port."""
    head, rest = (
        STACK[: STACK.index("  inferplan:models:")],
        STACK[STACK.index("  inferplan:gateway:") :],
    )
    weights = {
        "store": "weights",
        "path": "llama-3-8b",
        "revision": "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2",
        "size": "1Gi",
    }
    model = {
        "engine": "vllm",
        "weights": weights,
        "preheat": {"into": "shared"},
        "pool": "l40s",
        "consumers": ["chat", "batch"],
        "maxNumSeqs": SLOTS,
        "warmupSeconds": 10,
        "replicas": {"min": 1, "max": 3, "on": {"waitingRequests": 2}, "cooldownSeconds": 60},
        "traffic": {"requestsPerSecond": 2, "inputTokens": 10, "outputTokens": ANSWER},
        "slo": {"ttft": "2s", "availability": 99.5},
    }
    watch = {
        "prometheus": {"namespace": "monitoring", "url": f"http://127.0.0.1:{port}"},
        "scrape": {},
        "rules": {},
    }
    sections = {"models": {"ranged": model}, "monitoring": watch}
    path.write_text(
        head
        + "".join(f"  inferplan:{name}: {json.dumps(value)}\n" for name, value in sections.items())
        + rest
    )


def simulated(path: Path, trace: Trace) -> Any:
    """The outcome of the simulation. A fake node starts a pod in about a second, whatever the model
    weighs.
    """
    facts = (read(open_workspace(str(path)).record().outputs) or {})["model", "ranged"]
    steps: Any = StubSteps()
    replica = Replica(
        steps=steps, prompt=10, cached=0, answer=ANSWER, slots=SLOTS, tokens_per_step=2048
    )
    return Simulation(trace, replica, replace(rule_of(facts), start=1.0), (LATE, None)).run()


@dataclass(frozen=True)
class Run:
    """The rehearsal and the simulation of one trace of `seconds`, and the panels of the dashboards
    by name.
    """

    played: Played
    expected: Any
    seconds: float
    panels: dict[str, list[Drawn]]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    nginx_binary()
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed; apt-get install prometheus")
    folder = tmp_path_factory.mktemp("scaling")
    path, state, [port] = folder / "Pulumi.local.yaml", folder / "state", free_ports(1)
    write_stack(path, port)
    write_trace(folder / "rush.jsonl")
    trace, played = read_trace(folder / "rush.jsonl", "rush.jsonl"), Played()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        patch.setenv("INFERPLAN_STATE_DIR", str(state))
        expected, rules = (
            simulated(path, trace),
            rule_groups(watched(open_workspace(str(path)).settings)),
        )
        done = inferplan(state, "up", str(path), "--engine", "rehearsal", "--profile", PROFILE)
        assert done.returncode == 0, done.stderr[-3000:]
        try:
            cluster = start("local")
            ports = json.loads(
                (state / "clusters" / "local" / "serving" / "ports.json").read_text()
            )
            key = inferplan(
                state, "keys", "show", "chat", "--stack", str(path), "--value"
            ).stdout.strip()
            with contextlib.ExitStack() as programs:
                api = programs.enter_context(contextlib.closing(cluster.api()))
                programs.enter_context(
                    real_prometheus(
                        folder, port, f"http://127.0.0.1:{ports['metrics']}/targets", rules
                    )
                )
                try:
                    programs.enter_context(keda(cluster, folder))
                except ToolchainError as error:
                    pytest.skip(str(error))
                with followed(api, played):
                    began = time.time()
                    asyncio.run(play(trace, ports["http"], key, played))
                panels = {
                    name: drawn(
                        f"http://127.0.0.1:{port}",
                        name,
                        "inference",
                        {"model": "ranged"},
                        began,
                        time.time(),
                    )
                    for name in ("fleet", "model")
                }
        finally:
            inferplan(state, "down", "local", "--engine", "rehearsal", "--cluster")
    return Run(played, expected, float(trace.arrivals[-1]), panels)


def test_the_real_keda_and_the_simulation_agree_on_a_trace(run):
    played, expected = run.played, run.expected
    late, minutes = sum(each > LATE for each in played.first), played.replica_minutes(run.seconds)
    figures = (
        f"rehearsal: {late} late, {played.lost} lost, {minutes:.1f} replica minutes,"
        f" {played.changes}"
    )
    figures += (
        f"; simulation: {expected.late} late, {expected.lost} lost,"
        f" {60 * expected.replica_hours:.1f}, {expected.timeline}"
    )
    print(figures)
    assert played.lost == expected.lost == 0, figures
    assert max(count for _, count in played.changes) == expected.most_ready == 3, figures
    assert late == pytest.approx(expected.late, rel=AGREED), figures
    assert minutes == pytest.approx(60 * expected.replica_hours, rel=AGREED), figures


def test_no_panel_on_models_is_without_data(run):
    empty = [
        f"{name}: {panel.title}"
        for name, panels in run.panels.items()
        for panel in panels
        if not panel.lines
    ]
    # Racks have no list price.
    assert [each for each in empty if "Cost of nodes" not in each] == []
    waiting = {panel.title: panel.lines for panel in run.panels["model"]}["Requests"]["waiting"]
    assert max(value for _, value in waiting) > 10
    if os.environ.get("INFERPLAN_UPDATE_PICTURES"):
        for name, panels in run.panels.items():
            (ROOT / "docs" / "images" / f"dashboard-{name}.svg").write_text(
                picture(f"inferplan {name}", panels, run.seconds)
            )
