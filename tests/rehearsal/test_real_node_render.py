"""A render of models on three stores, applied by kubectl in every order of start: servers before the
preheat Jobs, Jobs first, and as it is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.kube.objects import is_true
from inferplan.progress import silent
from inferplan.pulumi_engine.values import reveal
from inferplan.rehearsal.cluster import Cluster, start
from inferplan.rehearsal.node import node
from inferplan.workspace.real_node import real_node as planned
from inferplan.workspace.workspace import open_workspace
from tests.lanes import in_full
from tests.rehearsal import bucket
from tests.rehearsal.pod_network import inside, process_in
from tests.rehearsal.real_node import (
    PASSPHRASE,
    ROOT,
    STACKS,
    Lane,
    apply,
    idle_pod,
    space,
    until,
)
from tests.rehearsal.test_real_node import pytestmark

__all__ = ["pytestmark"]
USER = 65532
STORES = {
    "claim": ("source", "shared"),
    "disk": ("source", "nvme"),
    "bucket": ("weights", "shared"),
}
"""The source and the target of each model's preheat."""


def claims(folder: Path, namespace: str) -> Iterator[dict[str, Any]]:
    """Volumes and claims of host paths that user 65532 owns; `source` has a model's files."""
    write_model(folder / "source" / "tiny")
    (folder / "shared").mkdir()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, USER)
    common = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
    for name in ("source", "shared"):
        # A volume of an earlier test may still be there.
        volume = f"{name}-{os.urandom(4).hex()}"
        spec = {
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": str(folder / name)},
            "claimRef": {"namespace": namespace, "name": name},
        }
        wanted = {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
        for kind, metadata, more in (
            ("PersistentVolume", {"name": volume}, spec),
            ("PersistentVolumeClaim", {"name": name, "namespace": namespace}, wanted),
        ):
            yield {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": common | more}


def write_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")


@pytest.fixture(params=in_full("servers first", "preheats first", "as written"))
def order(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def namespace(order: str) -> str:
    """One for each order: the objects of an earlier test end slowly."""
    return f"rendered-{order.replace(' ', '-')}"


@pytest.fixture
def disk() -> Iterator[Path]:
    """The directory of a node disk, made as docs/storage.md says."""
    folder = Path(tempfile.mkdtemp(prefix="inferplan-", dir="/mnt"))
    owner = ("-o", str(USER), "-g", str(USER), "-m", "2775")
    subprocess.run(["install", "-d", *owner, str(folder)], check=True)  # noqa: S607 - coreutils
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def stack(tmp_path, disk, namespace, monkeypatch) -> Path:
    """Three models in a namespace of their own on the shared node, with stubs as servers: an engine
    that loads would take most of the time.
    """
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
    document = yaml.safe_load((STACKS / "Pulumi.cpu.yaml").read_text())
    config = document["config"]
    config["inferplan:namespace"] = namespace
    config["inferplan:cluster"] = {"provider": "existing", "context": "none"}
    config["inferplan:nodePools"] = {
        "l4": {
            "provider": "existing",
            "accelerator": "nvidia-l4",
            "nodes": 1,
            "instanceType": "g6.12xlarge",  # four of them
            "nodeSelector": {"kubernetes.io/hostname": node.NAME},
        }
    }
    config["inferplan:adoptNamespace"] = True
    config["inferplan:storage"] = {
        **{name: {"kind": "pvc", "claimName": name} for name in ("source", "shared")},
        "nvme": {"kind": "nodeDisk", "pool": "l4", "path": str(disk), "capacity": "1Gi"},
        "weights": {
            "kind": "s3",
            "bucket": "weights",
            "endpoint": f"http://minio.buckets.svc:{bucket.PORT}",
            "credentials": {"secretName": "minio"},
        },
    }
    tiny = config["inferplan:models"].pop("tiny")
    for name, (source, target) in STORES.items():
        config["inferplan:models"][name] = tiny | {
            "pool": "l4",
            "weights": {"store": source, "path": "tiny", "revision": "1", "size": "1Mi"},
            "preheat": {"into": target, "cpu": "100m", "memory": "512Mi"},
            "resources": {"cpu": "50m", "memory": "2Gi"},
        }
    path = tmp_path / "Pulumi.small.yaml"
    path.write_text(json.dumps(document))
    return path


@dataclass(frozen=True)
class Rendered:
    """A rendered stack on the real node: `apply` its objects of some kinds by `kubectl apply -k`."""

    lane: Lane
    folder: Path
    cluster: Cluster
    namespace: str
    places: tuple[Path, ...]
    """The directories of the stores that preheats copy to."""

    def apply(self, wanted: Callable[[str], bool]) -> None:
        path = self.folder / "kustomization.yaml"
        whole = path.read_text()
        document = yaml.safe_load(whole)
        kinds = {
            each: yaml.safe_load((self.folder / each).read_text())["kind"]
            for each in document["resources"]
        }
        # The real node is the only one: the scheduler may not choose the fake node of the pool.
        document["resources"] = [
            each for each, kind in kinds.items() if kind != "Node" and wanted(kind)
        ]
        path.write_text(yaml.safe_dump(document))
        with self.lane.kubectl("apply", "-k", str(self.folder)) as done:
            printed, _ = done.communicate()
        path.write_text(whole)
        assert done.returncode == 0, printed

    def pods(self) -> list[dict[str, Any]]:
        return self.cluster.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]

    def gates(self) -> dict[str, int]:
        """The restarts of the init container of each server that waits for its files."""
        return {
            pod["metadata"]["labels"]["app.kubernetes.io/instance"]: status["restartCount"]
            for pod in self.pods()
            for status in pod["status"].get("initContainerStatuses", ())
            if status["name"] == "verified"
        }

    def ready(self) -> set[str]:
        listed = self.cluster.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments")["items"]
        return {each["metadata"]["name"] for each in listed if each["status"].get("readyReplicas")}

    def succeeded(self) -> int:
        jobs = self.cluster.get(f"/apis/batch/v1/namespaces/{self.namespace}/jobs")["items"]
        return sum(bool(each["status"].get("completionTime")) for each in jobs)


@pytest.fixture(scope="module")
def _bucket(node_lane: Lane, tmp_path_factory) -> Iterator[None]:
    """A real S3 server on the node, at the Service `minio`, with a model's files."""
    folder = tmp_path_factory.mktemp("bucket")
    write_model(folder / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(node_lane.state))
        cluster = start(node_lane.cluster)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "minio", "namespace": "buckets"},
        "spec": {"selector": {"app": "minio"}, "ports": [{"port": bucket.PORT}]},
    }
    with contextlib.closing(cluster.api()) as api:
        pod = idle_pod("minio", "buckets", {"app": "minio"})
        apply(api, [space("buckets"), service, pod])
        path = "/api/v1/namespaces/buckets/pods/minio"
        until(lambda: api.get(path)["status"].get("podIP"))
        program = (sys.executable, "-m", "tests.rehearsal.bucket", "weights", str(folder))
        with subprocess.Popen(
            inside(process_in(api.get(path)), *program),
            cwd=ROOT,
            # Else moto takes the bucket from the first part of the Service's name.
            env={**os.environ, "S3_IGNORE_SUBDOMAIN_BUCKETNAME": "true"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield
            server.stdin.close()
        api.request("DELETE", "/api/v1/namespaces/buckets")


@pytest.fixture
def rendered(stack, disk, namespace, _bucket, tmp_path, real_node: Lane) -> Iterator[Rendered]:
    folder = tmp_path / "render"
    real_node.run("render", str(stack), "--to", str(folder))
    workspace = open_workspace(str(stack))
    recording = workspace.record()
    plan = planned(workspace, recording)
    cluster = start(real_node.cluster)
    node.start(cluster, plan.images, silent, accelerators=plan.accelerators, stubs=plan.stubs)
    secrets = [reveal(each.inputs) for each in recording if each.inputs.get("kind") == "Secret"]
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
    minio = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "minio", "namespace": namespace},
        "stringData": keys,
    }
    with contextlib.closing(cluster.api()) as api:
        apply(api, [space(namespace), *claims(tmp_path / "disks", namespace), *secrets, minio])
        places = (tmp_path / "disks" / "shared", disk)
        yield Rendered(real_node, folder, cluster, namespace, places)
        api.request("DELETE", f"/api/v1/namespaces/{namespace}")
        for volume in api.get("/api/v1/persistentvolumes")["items"]:
            if volume["spec"].get("claimRef", {}).get("namespace") == namespace:
                api.request("DELETE", f"/api/v1/persistentvolumes/{volume['metadata']['name']}")


def is_job(kind: str) -> bool:
    return kind == "Job"


def test_models_on_three_stores_become_ready_in_every_order_of_start(order, rendered: Rendered):
    if order == "servers first":
        rendered.apply(lambda kind: not is_job(kind))
        until(lambda: rendered.gates().keys() == STORES.keys() and all(rendered.gates().values()))
        # A server that starts first makes no directory: the Job would not own it.
        assert [list(each.iterdir()) for each in rendered.places] == [[], []]
        rendered.apply(is_job)
    elif order == "preheats first":
        rendered.apply(lambda kind: kind != "Deployment")
        until(lambda: rendered.succeeded() == len(STORES))
        rendered.apply(lambda kind: kind == "Deployment")
    else:
        rendered.apply(lambda _: True)
    until(lambda: rendered.ready() == {"gateway", *STORES})
    marks = [each for place in rendered.places for each in place.rglob("READY")]
    assert len(marks) == len(STORES)
    assert {each.stat().st_uid for mark in marks for each in (mark, *mark.parents[:2])} == {USER}
    # A server that is killed starts again, and its pod says how it ended.
    labels = {"app.kubernetes.io/component": "model", "app.kubernetes.io/instance": "claim"}

    def pod() -> dict[str, Any]:
        return next(
            each for each in rendered.pods() if labels.items() <= each["metadata"]["labels"].items()
        )

    os.kill(process_in(pod(), "vllm"), signal.SIGKILL)
    until(lambda: pod()["status"]["containerStatuses"][0]["restartCount"])
    assert pod()["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137
    until(lambda: is_true(pod(), "Ready"))
