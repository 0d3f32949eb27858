"""A render applied in the worst order: servers start before the preheat Job, on claims of host paths."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
import yaml

from inferplan.progress import silent
from inferplan.pulumi_engine.values import reveal
from inferplan.rehearsal.cluster import start
from inferplan.rehearsal.node import node
from inferplan.workspace.real_node import real_node as planned
from inferplan.workspace.workspace import open_workspace
from tests.rehearsal.real_node import STACKS, Lane, until
from tests.rehearsal.test_real_node import pytestmark

__all__ = ["pytestmark"]
SPACE = "rendered"
USER = 65532


def claims(folder: Path):
    """Volumes and claims of host paths that user 65532 owns; `source` has a model's files."""
    for name in ("source", "shared"):
        (folder / name / "tiny").mkdir(parents=True)
    (folder / "shared" / "tiny").rmdir()
    (folder / "source" / "tiny" / "config.json").write_text("{}")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, USER)
    for name in ("source", "shared"):
        common = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": common
            | {
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": str(folder / name)},
                "claimRef": {"namespace": SPACE, "name": name},
            },
        }
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": common | {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
        }


@pytest.fixture
def stack(tmp_path, monkeypatch):
    """The small stack in a namespace of its own on the shared node, with a stub as server: an engine
    that loads would take most of the time.
    """
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    document = yaml.safe_load((STACKS / "Pulumi.cpu.yaml").read_text())
    config = document["config"]
    config["inferplan:namespace"] = SPACE
    config["inferplan:cluster"] = {"provider": "existing", "context": "none"}
    config["inferplan:nodePools"] = {
        "l4": {
            "provider": "existing",
            "accelerator": "nvidia-l4",
            "nodes": 1,
            "nodeSelector": {"kubernetes.io/hostname": node.NAME},
        }
    }
    config["inferplan:adoptNamespace"] = True
    config["inferplan:storage"] = {
        name: {"kind": "pvc", "claimName": name} for name in ("source", "shared")
    }
    config["inferplan:models"]["tiny"] |= {
        "pool": "l4",
        "weights": {"store": "source", "path": "tiny", "size": "1Mi"},
        "preheat": {"into": "shared", "cpu": "200m", "memory": "512Mi"},
        "resources": {"cpu": "100m", "memory": "4Gi"},
    }
    path = tmp_path / "Pulumi.small.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_servers_that_start_before_the_preheat_become_ready_and_leave_it_its_directory(
    stack, tmp_path, real_node: Lane
):
    real_node.run("render", str(stack), "--to", str(tmp_path / "render"))
    manifests = [
        yaml.safe_load(path.read_text())
        for path in (tmp_path / "render").glob("*.yaml")
        if path.name != "kustomization.yaml"
    ]
    workspace = open_workspace(str(stack))
    recording = workspace.record()
    plan = planned(workspace, recording)
    cluster = start(real_node.cluster)
    node.start(cluster, plan.images, silent, accelerators=plan.accelerators, stubs=plan.stubs)
    with contextlib.closing(cluster.api()) as api:

        def apply(manifest) -> None:
            metadata = manifest["metadata"]
            resource = api.resource(manifest["apiVersion"], manifest["kind"])
            path = resource.path(metadata.get("namespace", ""), metadata["name"])
            api.apply(path, manifest, manager="kubectl", force=True)

        apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        secrets = [reveal(each.inputs) for each in recording if each.inputs.get("kind") == "Secret"]
        # The real node is the only one: the scheduler may not choose the fake node of the pool.
        last, left_out = ("Job",), ("Node",)
        for each in [*claims(tmp_path / "disks"), *secrets]:
            apply(each)
        for each in sorted(manifests, key=lambda each: each["kind"] != "Deployment"):
            if each["kind"] not in (*last, *left_out):
                apply(each)
        pods = f"/api/v1/namespaces/{SPACE}/pods"

        def gates() -> list[dict]:
            return [
                status
                for each in cluster.get(pods)["items"]
                for status in each["status"].get("initContainerStatuses", ())
                if status["name"] == "verified"
            ]

        until(lambda: any(each["restartCount"] for each in gates()))
        assert list((tmp_path / "disks" / "shared").iterdir()) == []
        for each in manifests:
            if each["kind"] in last:
                apply(each)

        def is_ready(name: str) -> bool:
            path = f"/apis/apps/v1/namespaces/{SPACE}/deployments/{name}"
            return bool(cluster.get(path)["status"].get("readyReplicas"))

        until(lambda: is_ready("tiny") and is_ready("gateway"))
    [directory] = (tmp_path / "disks" / "shared" / "tiny").iterdir()
    assert (directory / "READY").is_file()
    assert {each.stat().st_uid for each in (directory, directory.parent)} == {USER}
