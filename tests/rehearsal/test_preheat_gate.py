"""Files and images are ready before servers start: the order on a real control plane, and the
messages of a failure.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from inferplan.kube.api import Api, ApiError
from inferplan.rehearsal.apply.run import apply, down
from inferplan.rehearsal.wait.object_events import ApplyFailed, Waiting
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster

INFRA = Path(__file__).resolve().parents[2] / "inferplan" / "infra"
COMMIT = "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2"
WORDS = (
    "not READY: pytorch_model.bin: loading this kind of file runs code that it contains; add it to"
    " preheat.exclude"
)
# No node is this large: the Job's pod waits until the test says how it ended.
HELD = {"into": "shared", "cpu": "900"}


@pytest.fixture
def api(cluster):
    client = cluster.api()
    yield client
    client.close()


@pytest.fixture
def up(cluster, monkeypatch):
    """Applies the whole program to the shared cluster, with a pool, stores and one model that vary,
    and takes it down afterwards.
    """
    monkeypatch.setenv("INFERPLAN_KUBECONFIG", str(cluster.kubeconfig))

    def run(
        *, pool: dict[str, Any] | None = None, listener: Any = lambda _event: None, **model: Any
    ) -> None:
        hub = {"store": "hub", "path": "Qwen/Qwen3-8B", "revision": COMMIT, "size": "16Gi"}
        sections = {
            "cluster": {"provider": "simulated"},
            "namespace": "gated",
            "nodePools": {
                "gated-l40s": {
                    "provider": "simulated",
                    "accelerator": "nvidia-l40s",
                    "nodes": 2,
                    **(pool or {}),
                },
                "gated-cpu": {"provider": "simulated", "nodes": 1},
            },
            "storage": {
                "hub": {"kind": "huggingface", "credentials": {"secretName": "hub"}},
                "shared": {
                    "kind": "nfs",
                    "server": "nfs.internal",
                    "path": "/export",
                    "capacity": "1Ti",
                },
                "nvme": {
                    "kind": "nodeDisk",
                    "pool": "gated-l40s",
                    "path": "/mnt/nvme/models",
                    "capacity": "400Gi",
                },
            },
            "models": {
                "qwen": {
                    "engine": "vllm",
                    "weights": hub,
                    "pool": "gated-l40s",
                    "replicas": 2,
                    **model,
                }
            },
        }
        config = {
            f"inferplan:{key}": value if isinstance(value, str) else json.dumps(value)
            for key, value in sections.items()
        }
        seed = {"inferplan:apiKeySeed": hashlib.sha256(b"gated").hexdigest()}
        apply(
            INFRA,
            cluster,
            project="inferplan",
            stack="gated",
            config=config | seed,
            secret_keys=frozenset(seed),
            listener=listener,
        )

    yield run
    down(cluster)


class Held:
    """Waits until the preheat's pod waits for a node, looks whether a server exists, and then ends
    the pod with `code`.
    """

    def __init__(self, api: Api, code: int) -> None:
        self._api = api
        self._code = code
        self._seen = threading.Event()
        self.server_was_there: bool | None = None
        self._thread = threading.Thread(target=self._end, daemon=True)
        self._thread.start()

    def __call__(self, event: object) -> None:
        if (
            isinstance(event, Waiting)
            and event.target.kind == "Job"
            and "Insufficient cpu" in event.reason
        ):
            self._seen.set()

    def _end(self) -> None:
        if not self._seen.wait(PATIENCE_SECONDS):
            return
        self.server_was_there = deployment(self._api) is not None
        [pod] = [pod for pod in pods(self._api, "preheat") if pod["status"]["phase"] == "Pending"]
        terminated = {
            "exitCode": self._code,
            "reason": "Error" if self._code else "Completed",
            "message": WORDS if self._code else "",
        }
        state = {
            "name": "preheat",
            "image": "i",
            "imageID": "i",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": terminated},
        }
        status = {"phase": "Failed" if self._code else "Succeeded", "containerStatuses": [state]}
        path = f"/api/v1/namespaces/gated/pods/{pod['metadata']['name']}/status"
        self._api.request("PATCH", path, {"status": status}, media="application/merge-patch+json")


def pods(api: Api, component: str) -> list[dict[str, Any]]:
    items = api.request("GET", "/api/v1/namespaces/gated/pods")["items"]
    return [
        pod
        for pod in items
        if pod["metadata"]["labels"].get("app.kubernetes.io/component") == component
    ]


def deployment(api: Api) -> dict[str, Any] | None:
    try:
        return api.request("GET", "/apis/apps/v1/namespaces/gated/deployments/qwen")
    except ApiError:
        return None


def asks_for_cards(pod: dict[str, Any]) -> bool:
    containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
    return any("nvidia.com/gpu" in json.dumps(each["resources"]) for each in containers)


def test_server_is_created_after_verified_preheat_and_failed_preheat_reports_reason(api, up):
    refused = Held(api, 3)
    with pytest.raises(ApplyFailed) as failed:
        up(preheat=HELD, listener=refused)
    assert refused.server_was_there is False
    assert deployment(api) is None
    lines = str(failed.value).splitlines()
    assert lines[0] == "1 resource failed, 1 that depend on them were not applied:"
    assert lines[1].startswith("  Job gated/qwen-preheat-")
    assert "the Job failed: pod qwen-preheat-" in lines[1]
    assert lines[1].endswith(f": container preheat ended with exit code 3: {WORDS}")
    assert "inspect it with `kubectl --kubeconfig " in lines[2]
    assert "  Deployment gated/qwen: not applied" in lines
    # The same stack once more, as after an outage of the store: the Job is made again, without a
    # new round.
    mended = Held(api, 0)
    up(preheat=HELD, listener=mended)
    assert mended.server_was_there is False
    made = deployment(api)
    assert made is not None
    assert made["status"]["availableReplicas"] == 2


@pytest.mark.full
def test_disk_and_images_of_each_node_are_filled_before_servers_start_without_accelerators(api, up):
    up(preheat={"into": "nvme"}, pool={"prePullImages": True})
    made = deployment(api)
    assert made is not None
    # A DaemonSet counts as ready with the nodes that were there when it was made, and its pods on
    # the others follow.
    sets = api.watch(
        "/apis/apps/v1/namespaces/gated/daemonsets", {"timeoutSeconds": str(PATIENCE_SECONDS)}
    )
    assert any(live.get("status", {}).get("numberReady") == 2 for _, live in sets)
    sets.close()
    filling, pulling_pods = pods(api, "preheat"), pods(api, "image-pull")
    assert not any(asks_for_cards(pod) for pod in (*filling, *pulling_pods))
    # A fake pod may end before its neighbour is placed, and then both are on one node; on real ones
    # the payload refuses that.
    assert {pod["spec"]["nodeName"] for pod in filling} <= {"gated-l40s-0", "gated-l40s-1"}
    assert {pod["spec"]["nodeName"] for pod in pulling_pods} == {"gated-l40s-0", "gated-l40s-1"}
    serving = {each["image"] for each in made["spec"]["template"]["spec"]["containers"]}
    [pulling] = api.request("GET", "/apis/apps/v1/namespaces/gated/daemonsets")["items"]
    assert {
        each["image"] for each in pulling["spec"]["template"]["spec"]["initContainers"]
    } == serving
    [job] = api.request("GET", "/apis/batch/v1/namespaces/gated/jobs")["items"]
    assert job["status"]["completedIndexes"] == "0,1"
    assert job["status"]["completionTime"] <= made["metadata"]["creationTimestamp"]


@pytest.mark.full
def test_example_of_each_store_reaches_ready_pods(tmp_path):
    environment = {
        **os.environ,
        "INFERPLAN_STATE_DIR": str(tmp_path),
        "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
        "COLUMNS": "1000",
    }
    command = str(Path(sys.executable).parent / "inferplan")
    example = str(INFRA.parent / "docs" / "storage" / "Pulumi.stores.yaml")

    def inferplan(*arguments: str) -> subprocess.CompletedProcess[str]:
        given = [command, arguments[0], example, *arguments[1:]]
        return subprocess.run(
            given,
            cwd=INFRA.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
            check=False,
        )

    try:
        done = inferplan("up", "--engine", "rehearsal")
        assert done.returncode == 0, done.stderr[-3000:]
        shown = inferplan("status")
        assert shown.returncode == 0, shown.stdout
        for store, kind, state in (
            ("hub", "huggingface", "referenced"),
            ("nas", "pvc", "Bound"),
            ("nvme", "nodeDisk", "Bound"),
        ):
            assert re.search(rf"{store} +{kind} .* {state}", shown.stdout), shown.stdout
    finally:
        inferplan("down", "--engine", "rehearsal", "--cluster")
