"""A new key where the node has no room for a surge pod: the update says so before it starts, old
pods answer with old keys, also after the node started again, and the update ends when there is room.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferplan.images.catalogue import default_image
from inferplan.kube.objects import is_true
from inferplan.kube.quantity import millicores_of
from inferplan.rehearsal.cluster import Cluster, start
from inferplan.rehearsal.cluster.components import NODE
from inferplan.rehearsal.cluster.processes import running
from inferplan.rehearsal.node import node
from tests.rehearsal.real_node import ROOT, Lane, processes_of, until
from tests.rehearsal.test_real_node import pytestmark

pytestmark = [*pytestmark, pytest.mark.full]
FILLER = "/api/v1/namespaces/default/pods/filler"


def fill(cluster: Cluster) -> None:
    """Start a pod that requests what the node has left, less than a gateway pod needs."""
    offered = cluster.get(f"/api/v1/nodes/{node.NAME}")["status"]["allocatable"]["cpu"]
    # Pods that ended, for example those of a preheat, have no share of the node any more.
    fields = f"spec.nodeName={node.NAME},status.phase!=Succeeded,status.phase!=Failed"
    used = sum(
        millicores_of(each["resources"].get("requests", {}).get("cpu", "0"))
        for pod in cluster.get(f"/api/v1/pods?fieldSelector={fields}")["items"]
        for each in pod["spec"]["containers"]
    )
    request = {"cpu": f"{millicores_of(offered) - used - 50}m"}
    container = {
        "name": "pause",
        "image": default_image("pause"),
        "resources": {"requests": request},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "filler", "namespace": "default"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node.NAME},
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
        },
    }
    with contextlib.closing(cluster.api()) as api:
        api.apply(FILLER, pod, manager="kubectl", force=True)
    until(lambda: is_true(cluster.get(FILLER), "Ready"))


def test_a_rotation_without_room_loses_no_call_and_survives_a_restart(real_node: Lane, tmp_path):
    cluster = start(real_node.cluster)
    fill(cluster)
    stack = tmp_path / real_node.stack.name
    shutil.copy(real_node.stack, stack)
    # Versions that the cluster does not have yet, the one of the calls among them.
    old, new = (f"chat: {{keys: {each}}}\n" for each in ([1], [4, 1]))
    history = "  inferplan:keyHistory: {chat: {issued: 4, spent: [2, 3]}}\n"
    stack.write_text(stack.read_text().replace(old, new + history))
    update = ("up", str(stack), "--node", "real")
    with calls(real_node, tmp_path / "without-room.json"):
        crowded = real_node.run(*update, check=False)
    assert crowded.returncode == 1
    assert "gateway: its rollout starts a pod more" in crowded.stderr
    assert "Insufficient cpu" in crowded.stderr

    # The node starts again: its old pods find the keys that they had.
    for each in running(real_node.directory)[NODE]:
        os.kill(each, signal.SIGKILL)
    until(lambda: not processes_of(node.folder_of(real_node.directory)))
    assert real_node.run(*update, check=False).returncode == 1
    until(real_node.answers)
    with contextlib.closing(cluster.api()) as api:
        api.request("DELETE", FILLER)
    with calls(real_node, tmp_path / "with-room.json"):
        real_node.run(*update)


@contextlib.contextmanager
def calls(lane: Lane, counts: Path) -> Iterator[None]:
    """Call the model ten times in a second, and assert at the end that each call was answered."""
    port = lane.url.rpartition(":")[2]
    load = subprocess.Popen(
        [sys.executable, "-m", "tests.rehearsal.steady_calls", port, str(counts)], cwd=ROOT
    )
    until(counts.exists)
    yield
    load.send_signal(signal.SIGINT)
    load.wait()
    answers = json.loads(counts.read_text())
    print(f"{counts.stem}: {answers}")
    assert answers["200"] > 0
    assert answers.keys() == {"200"}, answers
