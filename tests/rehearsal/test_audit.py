"""Pairs of manifests from public threads, half broken and half harmless: what an audit says about
each, on the real control plane.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.audit.documents import read_manifests
from inferplan.commands.audit.audit import Audit, audit
from inferplan.errors import RequestError
from inferplan.rehearsal.cluster import clusters, delete, start
from inferplan.rehearsal.cluster.operators import operator
from inferplan.rehearsal.cluster.processes import running
from inferplan.rehearsal.cluster.record import cluster_directory
from inferplan.rehearsal.toolchain.build import ensure_source
from inferplan.rehearsal.toolchain.pins import CONTROL_PLANES, OPTIONAL
from inferplan.review import findings
from inferplan.review.rendering.html import render as as_html
from inferplan.review.rendering.markdown import render as as_markdown
from inferplan.review.report import as_json
from tests.lanes import in_full
from tests.rehearsal.test_cluster_lifecycle import listening_addresses

MALFORMED = """
apiVersion: ray.io/v1
kind: RayService
metadata: {name: a}
spec:
  rayClusterConfig:
    headGroupSpec:
      template: {spec: {containers: [{name: c, image: x, ports: [{name: [a], containerPort: 80}], readinessProbe: {httpGet: {port: http}}}]}}
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: b}
spec:
  leaderWorkerTemplate:
    workerTemplate: {spec: {containers: [{name: c, image: x, ports: [{name: [a], containerPort: 80}], readinessProbe: {httpGet: {port: http}}}]}}
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: c}
spec: {services: {A: {replicas: 1, resources: {limits: [x]}, extraPodSpec: {mainContainer: {image: x}}}}}
"""
CORPUS = Path(__file__).with_name("audit")
BASES = yaml.safe_load((CORPUS / "bases.yaml").read_text())
PAIRS = {
    name: pair
    for path in sorted(CORPUS.glob("*.yaml"))
    if path.stem != "bases"
    for name, pair in yaml.safe_load(path.read_text()).items()
}
WEEK = [name for name in PAIRS if name.startswith("week-")]
RUNS = int(os.environ.get("INFERPLAN_AUDIT_RUNS", "2"))
"""How often each pair of a week is judged: 20 runs of all take an hour on two processors."""
# One harmless pair, and one for an operator; the example of the page is a broken one.
SAMPLE = (
    "more-replicas-with-room",
    "cron-job-selects-a-missing-node",
)


def edited(text: str, edits: list[list[str]]) -> str:
    for before, after in edits:
        assert before in text, before
        text = text.replace(before, after)
    return text


def sides(pair: dict[str, Any]) -> tuple[str, str]:
    """The old and the new manifests: `old`, or the base with what holds `before`, then with the
    edits. `rewrite` edits what `append` adds.
    """
    base, added = (
        pair["old"] if "old" in pair else edited(BASES[pair["base"]], pair.get("before", [])),
        "".join(f"---\n{pair[key]}" for key in ("append",) if key in pair),
    )
    new = (
        edited(base, pair["edits"]) + edited(added, pair["rewrite"])
        if "rewrite" in pair
        else edited(base + added, pair["edits"])
    )
    return base + added, new + "".join(
        f"---\n{pair[key]}" for key in ("append_new",) if key in pair
    )


def fleet(
    count: int, gpus: int, taint: str = "", devices: int = 0, load: int = 0, cpu: int = 1
) -> dict[str, Any]:
    taints = [{"key": "nvidia.com/gpu", "value": taint, "effect": "NoSchedule"}] if taint else []
    labels = {"accelerator": "h100"}
    pools: list[dict[str, Any]] = [
        {
            "name": "gpu",
            "count": count,
            "labels": labels,
            "taints": taints,
            "allocatable": {"nvidia.com/gpu": gpus},
        }
    ]
    if devices:
        pools[0]["devices"] = [
            {
                "driver": "gpu.nvidia.com",
                "count": devices,
                "attributes": {"type": "gpu"},
                "capacity": {"memory": "80Gi"},
            }
        ]
    held = [{"pool": "gpu", "pods": load, "requests": {"nvidia.com/gpu": 1}}] if load else []
    return {"kind": "Fleet", "pools": [*pools, {"name": "cpu", "count": cpu}], "load": held}


def run(folder: Path, pair: dict[str, Any], say: Callable[[str], None] = lambda _: None) -> Audit:
    old, new = sides(pair)
    for name, text in (
        ("old", old),
        ("new", new),
        ("nodes", yaml.safe_dump(fleet(**pair["nodes"]))),
    ):
        (folder / f"{name}.yaml").write_text(text)
    if "existing" in pair:
        (folder / "existing.yaml").write_text(pair["existing"])
    options: dict[str, Any] = {"existing": [folder / "existing.yaml"]} if "existing" in pair else {}
    options |= {
        "operators": [pair["operator"]] if "operator" in pair else [],
        "drain": pair.get("drain", False),
    }
    options |= {
        "deployer": pair.get("deployer", "kubectl"),
        "kubernetes": pair.get("kubernetes"),
        "nodes": folder / "nodes.yaml",
    }
    return audit(folder / "new.yaml", old=folder / "old.yaml", say=say, **options)


def test_the_corpus_has_sixty_pairs_and_both_sides_of_each_are_readable(tmp_path):
    assert len(PAIRS) >= 60
    broken = [name for name, pair in PAIRS.items() if pair.get("expect")]
    assert 0.4 < len(broken) / len(PAIRS) < 0.6
    for name, pair in PAIRS.items():
        assert pair["link"].startswith(("https://github.com/", "https://kubernetes.io/docs/")), name
        for text in sides(pair):
            (tmp_path / "side.yaml").write_text(text)
            assert read_manifests(tmp_path / "side.yaml"), name


@pytest.mark.parametrize(
    "name", [*SAMPLE, *in_full(*(name for name in PAIRS if name not in SAMPLE))]
)
def test_a_pair_is_judged_as_its_thread_says(name, tmp_path):
    pair = PAIRS[name]
    for source in (
        OPTIONAL.get(pair.get("operator", "").partition("=")[0]),
        CONTROL_PLANES.get(pair.get("kubernetes", "")),
    ):
        if source is not None:
            ensure_source(source)
    began = time.monotonic()
    result = run(tmp_path, pair)
    seconds = time.monotonic() - began
    blamed = {
        (each.code, each.object, each.field)
        for each in result.findings.details
        if each.weight == "blocked"
    }
    if expected := pair.get("expect"):
        assert (expected["code"], expected["object"], expected["field"]) in blamed
        said = " ".join(
            f"{each.reason}; {each.remedy}"
            for each in result.findings.details
            if each.object == expected["object"] and each.weight == "blocked"
        )
        assert [each for each in expected.get("says", ()) if each not in said] == []
        assert [each for each in expected.get("never", ()) if each in said] == []
    else:
        assert blamed == set()
        assert result.blocked == pair.get("policy", False)
    assert seconds < 60
    assert not [each for each in clusters() if each.startswith("audit-")]


@pytest.mark.parametrize(
    "name", ["week-hpa-minimum", *in_full(*(each for each in WEEK if each != "week-hpa-minimum"))]
)
def test_every_run_of_a_pair_has_one_verdict_and_the_same_bytes(name, tmp_path):
    results = [run(tmp_path, PAIRS[name]) for _ in range(RUNS)]
    assert len({each.blocked for each in results}) == 1
    assert len({findings.save(each.findings) for each in results}) == 1
    for form in (as_markdown, as_html, as_json):
        assert len({form(each.report) for each in results}) == 1


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["all-replicas-stop-at-once", "budget-over-one-replica", "budget-with-one-to-spare"]
)
def test_a_busy_controller_manager_changes_no_verdict(name, tmp_path):
    over = threading.Event()

    def stop_now_and_then() -> None:
        while not over.wait(0.2):
            for directory in (
                cluster_directory(each) for each in clusters() if each.startswith("audit-")
            ):
                for pid in running(directory).get("kube-controller-manager", ()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                        over.wait(1.5)
                        os.kill(pid, signal.SIGCONT)

    busy = threading.Thread(target=stop_now_and_then)
    busy.start()
    try:
        test_a_pair_is_judged_as_its_thread_says(name, tmp_path)
    finally:
        over.set()
        busy.join()


@pytest.mark.full
@pytest.mark.parametrize(
    "program", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
)
def test_a_program_that_stands_still_changes_no_verdict(program, tmp_path):
    threads = []

    def resume(pid: int) -> None:
        time.sleep(9)  # longer than the audit waits for a pod with a stated reason
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def say(text: str) -> None:
        if text.startswith("applying the new state"):
            directories = [
                cluster_directory(each) for each in clusters() if each.startswith("audit-")
            ]
            for pid in (pid for each in directories for pid in running(each)[program]):
                os.kill(pid, signal.SIGSTOP)
                threads.append(threading.Thread(target=resume, args=(pid,)))
                threads[-1].start()

    result = run(tmp_path, PAIRS["disk-for-each-replica"], say)
    for each in threads:
        each.join()
    assert len(threads) == 1
    assert [each for each in result.findings.details if each.weight == "blocked"] == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "programs"),
    [("keda", {"keda-operator", "keda-webhooks"}), ("envoy-gateway", {"envoy-gateway"})],
)
def test_the_programs_of_an_operator_listen_on_this_machine_only_and_find_no_credentials_of_its_user(
    monkeypatch, name, programs
):
    ensure_source(OPTIONAL[name])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-of-the-user")
    live = start(f"{name}-alone")
    try:
        with operator(live, name):
            pids = [pid for each in programs for pid in running(live.directory)[each]]
            assert listening_addresses(pids) == {"0100007F"}
            variables = [Path(f"/proc/{pid}/environ").read_text().split("\0") for pid in pids]
            assert all(
                f"HOME={live.directory}" in each and "canary" not in str(each) for each in variables
            )
        assert not programs & running(live.directory).keys()
    finally:
        delete(f"{name}-alone")


SECRETS = """
apiVersion: batch/v1
kind: Job
metadata: {name: load}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: load
        image: registry.example.com/load:1
        args: [--api-key, canary-argument, "--hf-token=canary-option"]
        env: [{name: DB_PASSWORD, value: canary-variable}]
        livenessProbe: {httpGet: {path: /, port: 80, httpHeaders: [{name: Authorization, value: Bearer canary-header}]}}
---
apiVersion: v1
kind: Secret
metadata: {name: keys, labels: {owner: "no label"}}
stringData: {password: canary-content}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: typo}
spec:
  selector: {matchLabels: {app: typo}}
  template:
    metadata: {labels: {app: typo}}
    spec: {containers: [{name: typo, image: "registry.example.com/typo:1", env: [{name: API_KEY, value: {x: canary-map}}]}]}
"""


@pytest.mark.parametrize("deployer", ["kubectl", *in_full("flux")])
def test_no_secret_value_is_in_findings_or_report(tmp_path, deployer):
    (tmp_path / "old.yaml").write_text(
        SECRETS.replace("no label", "ops").replace("{x: canary-map}", "canary-text")
    )
    (tmp_path / "new.yaml").write_text(SECRETS.replace("load:1", "load:2"))
    (tmp_path / "nodes.yaml").write_text("kind: Fleet\npools: [{name: cpu, count: 1}]\n")
    result = audit(
        tmp_path / "new.yaml",
        old=tmp_path / "old.yaml",
        nodes=tmp_path / "nodes.yaml",
        deployer=deployer,
    )
    rejected = {
        (each.object, each.field) for each in result.findings.details if each.weight == "blocked"
    }
    assert {
        ("Job default/load", "spec.template"),
        ("Secret default/keys", "metadata.labels"),
    } <= rejected
    for text in (
        findings.save(result.findings),
        as_markdown(result.report),
        as_html(result.report),
        as_json(result.report),
    ):
        assert "canary" not in str(text)


def test_the_example_of_the_page_runs(tmp_path):
    pair = PAIRS["surge-on-a-pool-of-one-node"]
    old, new = sides(pair)
    for name, text in (
        ("old", old),
        ("new", new),
        ("nodes", yaml.safe_dump(fleet(**pair["nodes"]))),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "blocked no-room Deployment llm/server spec.strategy" in done.stdout


@pytest.mark.full
def test_what_the_api_server_rejects_of_a_nodes_file_is_one_line(tmp_path):
    (tmp_path / "a.yaml").write_text(MALFORMED)
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(
        "kind: Fleet\npools: [{name: a, count: 1}]\ndeviceClasses:\n- {name: h, expressions:"
        " ['(((']}\n"
    )
    with pytest.raises(
        RequestError, match=rf"^{nodes}:4: DeviceClass h: .* Syntax error"
    ) as caught:
        audit(tmp_path / "a.yaml", nodes=nodes)
    assert "\n" not in str(caught.value)


@pytest.mark.full
def test_malformed_objects_of_operators_are_findings(tmp_path):
    (tmp_path / "a.yaml").write_text(MALFORMED)
    (tmp_path / "nodes.yaml").write_text("kind: Fleet\npools: [{name: a, count: 1}]\n")
    result = audit(tmp_path / "a.yaml", nodes=tmp_path / "nodes.yaml", timeout=10)
    assert {
        each.object.partition(" ")[0]
        for each in result.findings.details
        if each.weight == "blocked"
    } == {
        "DynamoGraphDeployment",
        "LeaderWorkerSet",
        "RayService",
    }


def test_hostile_input_is_one_line_each_and_starts_no_cluster(tmp_path):
    (tmp_path / "bomb.yaml").write_text(
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n"
            for p, c in zip("abcdefg", "bcdefgh", strict=True)
        )
    )
    (tmp_path / "tag.yaml").write_text(
        "apiVersion: v1\nkind: !!python/object/apply:os.system [touch /tmp/x]\n"
    )
    (tmp_path / "nodes.yaml").write_text("kind: Fleet\npools: [{name: cpu, count: 1}]\n")
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    code = "from inferplan.commands.main import run; run()"
    for name in ("bomb", "tag"):
        command = [sys.executable, "-c", code, "audit", f"{name}.yaml", "--nodes", "nodes.yaml"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1
        assert f"{name}.yaml:" in done.stderr
    assert not clusters()
