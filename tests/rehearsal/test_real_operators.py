"""The operators themselves on the documented examples: what they make is accepted, scheduled and
awaited, and is what is kept of them.

They run where INFERPLAN_OPERATORS says that their programs are (see `real_operators`); with
INFERPLAN_RECORD=1 what they made is kept anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferplan.progress import silent
from inferplan.rehearsal.apply.operators import stub
from inferplan.rehearsal.apply.run import apply
from inferplan.rehearsal.cluster import Cluster, delete, start
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.rehearsal.wait.object_events import Ready
from inferplan.status.status import read_state
from inferplan.workspace.contract import contract_of
from inferplan.workspace.workspace import open_workspace
from tests.rehearsal import real_operators
from tests.rehearsal.traces import KEPT, LWS, RAY, kept, traces

ROOT = Path(__file__).resolve().parents[2]
VLLM, RAY_SERVE = (
    ROOT / "docs" / "engines" / f"Pulumi.{name}.yaml" for name in ("vllm", "ray-serve")
)

pytestmark = [pytest.mark.cluster, pytest.mark.full]
needs_lws, needs_kuberay = (
    pytest.mark.skipif(
        bool(real_operators.missing(name)), reason=real_operators.missing(name) or "it is here"
    )
    for name in ("lws", "kuberay")
)


@pytest.fixture
def cluster(own_state, monkeypatch):  # noqa: ARG001 - it must be set before a cluster starts
    """A cluster of the test's own in which nothing stands in for an operator."""
    monkeypatch.setattr(stub, "_CREWS", {})
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    monkeypatch.chdir(ROOT)
    yield start("operators", silent)
    delete("operators")


def up(
    cluster: Cluster,
    path: Path,
    models: list[str],
    change: Callable[[str], str] = lambda text: text,
    **more: Any,
) -> Any:
    """Bring up the stack at `path` with these models of it only, their JSON changed by `change`;
    how it stands then.
    """
    workspace = open_workspace(str(path))
    given = workspace.engine_input()
    chosen = {
        name: model
        for name, model in json.loads(given["config"]["inferplan:models"]).items()
        if name in models
    }
    config = {**given["config"], "inferplan:models": change(json.dumps(chosen))}
    options: Any = {**given, "config": config, "ensure_crds": installer(cluster, silent), **more}
    apply(workspace.rehearsed, cluster, **options)
    return read_state(workspace.settings, contract_of(workspace.settings), cluster.get)


def model_pods(cluster: Cluster, model: str) -> list[Any]:
    chosen = (
        f"labelSelector=app.kubernetes.io/component%3Dmodel,app.kubernetes.io/instance%3D{model}"
    )
    return cluster.get(f"/api/v1/namespaces/inference/pods?{chosen}")["items"]


def images(pods: list[Any]) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


def condition(live: Any, name: str) -> str:
    return next(each["status"] for each in live["status"]["conditions"] if each["type"] == name)


def held_against_what_is_kept(cluster: Cluster, kind: str, live: Any) -> None:
    found, name = traces(cluster.get, kind, live), live["metadata"]["name"]
    if os.environ.get("INFERPLAN_RECORD"):
        (KEPT / f"{kind.rpartition('/')[2]}.json").write_text(
            json.dumps({**kept(kind), name: found}, indent=1) + "\n", encoding="utf-8"
        )
    assert found == kept(kind)[name]


@needs_lws
def test_stub_matches_leader_worker_set_operator(cluster, tmp_path):
    with real_operators.leader_worker_set(cluster, tmp_path / "lws"):
        state = up(cluster, VLLM, ["llama-3-405b"])
        [row] = [each for each in state.models if each.name == "llama-3-405b"]
        assert (row.ready, row.wanted) == (1, 1)
        pods = model_pods(cluster, "llama-3-405b")
        assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["h100-0", "h100-1"]
        path = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/inference/leaderworkersets/llama-3-405b-group"
        held_against_what_is_kept(cluster, LWS, cluster.get(path))
        before = images(pods)
        up(
            cluster,
            VLLM,
            ["llama-3-405b"],
            lambda text: text.replace('"engine"', '"image": "docker.io/acme/vllm:2", "engine"', 1),
        )
        assert images(model_pods(cluster, "llama-3-405b")) == {"docker.io/acme/vllm:2"} != before
        up(cluster, VLLM, [])
        assert model_pods(cluster, "llama-3-405b") == []


@needs_kuberay
def test_stub_matches_kuberay_and_change_waits_for_new_ray_cluster(cluster, tmp_path):
    with real_operators.kuberay(cluster, tmp_path / "kuberay"):
        state = up(cluster, RAY_SERVE, ["assistant"])
        [row] = [each for each in state.models if each.name == "assistant"]
        assert (row.ready, row.wanted) == (2, 2)
        path = "/apis/ray.io/v1/namespaces/inference/rayservices/assistant"
        live = cluster.get(path)
        assert (condition(live, "Ready"), condition(live, "UpgradeInProgress")) == ("True", "False")
        held_against_what_is_kept(cluster, RAY, live)
        upgrading = []

        def note(event: Any) -> None:
            if isinstance(event, Ready) and event.target.kind == "RayService":
                upgrading.append(condition(cluster.get(path), "UpgradeInProgress"))

        up(
            cluster,
            RAY_SERVE,
            ["assistant"],
            lambda text: text.replace("2.56.0-py312-cu130", "2.56.0-next"),
            listener=note,
        )
        assert upgrading == ["False"]
        serving = cluster.get("/api/v1/namespaces/inference/services/assistant-serve-svc")["spec"][
            "selector"
        ]["ray.io/cluster"]
        new = [
            pod
            for pod in model_pods(cluster, "assistant")
            if pod["metadata"]["labels"]["ray.io/cluster"] == serving
        ]
        assert images(new) == {"docker.io/rayproject/ray-llm:2.56.0-next"}
        assert len(new) == 3
        up(cluster, RAY_SERVE, [])
        assert model_pods(cluster, "assistant") == []
