"""The committed stacks on EKS, rehearsed: every pod of prod is scheduled on fake nodes of its
pool's machines.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from inferplan.rehearsal.cluster import start
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.simulated_nodes import nodes_wanted
from tests.patience import PATIENCE_SECONDS
from tests.rehearsal.commands import ROOT, inferplan, started

pytestmark = pytest.mark.cluster

STACKS = ROOT / "stacks"
UNFIT = re.compile(
    r"Job inference/llama-3-8b-preheat-\w+: .*pod llama-3-8b-preheat-\S+: 0/\d+ nodes are"
    r" available: 2 Insufficient cpu"
)


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    directory = tmp_path_factory.mktemp("eks")
    yield directory
    inferplan(directory, "down", "prod", "--engine", "rehearsal", "--cluster")


@pytest.fixture(scope="module")
def output(state):
    done = started(state, "up", "prod", "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr + done.stdout


@pytest.fixture
def client(state, output, monkeypatch):  # noqa: ARG001 - the stack must be up
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(state))
    cluster = start("prod")
    made = cluster.api()
    yield made
    made.close()


@pytest.fixture
def items(client):
    return lambda path: client.request("GET", path)["items"]


def test_every_model_of_prod_is_ready(items):
    settings = validate(read_stack(STACKS / "Pulumi.prod.yaml"))
    ready = {
        each["metadata"]["name"]: each["status"].get("readyReplicas", 0)
        for each in items("/apis/apps/v1/namespaces/inference/deployments")
    }
    assert {name: ready[name] for name in settings.models} == {
        name: model.replicas for name, model in settings.models.items()
    }


def test_each_pool_has_as_many_nodes_as_its_models_need(items):
    settings = validate(read_stack(STACKS / "Pulumi.prod.yaml"))
    counted = Counter(
        each["metadata"]["labels"].get("inferplan.dev/pool") for each in items("/api/v1/nodes")
    )
    assert counted == nodes_wanted(settings)
    assert counted == {"l40s": 5, "h100": 1, "system": 2}


def test_fake_node_has_instance_type_zone_and_taint_of_its_pool(items):
    nodes = {each["metadata"]["name"]: each for each in items("/api/v1/nodes")}
    block = nodes["h100-0"]
    assert block["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "p5.48xlarge"
    assert block["metadata"]["labels"]["topology.kubernetes.io/zone"] == "us-east-1b"
    assert block["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert [each["key"] for each in block["spec"]["taints"]] == ["nvidia.com/gpu"]
    zones = {
        nodes[f"l40s-{index}"]["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for index in range(5)
    }
    assert zones == {"us-east-1a", "us-east-1b", "us-east-1c"}
    assert "taints" not in nodes["system-0"]["spec"]


def test_device_plugins_run_on_accelerator_nodes_of_node_groups_only(client, items):
    """The nodes of Auto Mode bring the plugin with them."""
    # A DaemonSet counts as ready with the nodes that were there when it was made, and its pods on
    # the others follow.
    sets = client.watch(
        "/apis/apps/v1/namespaces/nvidia-device-plugin/daemonsets",
        {"timeoutSeconds": str(PATIENCE_SECONDS)},
    )
    assert any(live.get("status", {}).get("numberReady") == 1 for _, live in sets)
    sets.close()
    pods = items("/api/v1/namespaces/nvidia-device-plugin/pods")
    assert [each["spec"]["nodeName"] for each in pods] == ["h100-0"]


def test_preheat_and_gateway_pods_avoid_accelerator_nodes(items):
    pods = items("/api/v1/namespaces/inference/pods")
    plain = [
        each
        for each in pods
        if each["metadata"]["labels"].get("app.kubernetes.io/component") in ("gateway", "preheat")
    ]
    assert plain
    assert {each["spec"]["nodeName"].rpartition("-")[0] for each in plain} == {"system"}


@pytest.mark.full
def test_a_second_run_changes_nothing(state, output):
    assert (
        "its nodes are fake, its cluster is on this machine, and no request goes to AWS" in output
    )
    assert re.search(r"^[1-9]\d* objects? changed", output, re.MULTILINE)
    again = inferplan(state, "up", "prod", "--engine", "rehearsal")
    assert again.returncode == 0
    assert re.search(r"^0 objects changed", again.stderr + again.stdout, re.MULTILINE), (
        again.stderr[-500:]
    )


@pytest.mark.full
def test_error_names_unschedulable_pod_with_reason_of_scheduler(tmp_path):
    """A preheat asks for more than a plain node has; the wait may take the hour that copying may
    take, and says why at once.

    On a created cluster it would be refused before: here larger nodes than the stack's own might be
    there.
    """
    text = (STACKS / "Pulumi.staging.yaml").read_text()
    text = text.replace("preheat: {into: shared}", 'preheat: {into: shared, cpu: "6"}')
    text = re.sub(
        r"    create:\n(      .*\n)+",
        "    subnets: {us-east-1a: subnet-0000000a, us-east-1b: subnet-0000000b}\n",
        text,
        count=1,
    )
    text = text.replace("shared: {kind: efs,", "shared: {kind: efs, openTo: cluster,")
    stack = tmp_path / "Pulumi.staging.yaml"
    stack.write_text(text)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environment |= {
        "INFERPLAN_STATE_DIR": str(tmp_path / "state"),
        "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
        "COLUMNS": "1000",
    }
    command = [
        str(Path(sys.executable).parent / "inferplan"),
        "up",
        str(stack),
        "--engine",
        "rehearsal",
    ]
    heard = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            heard.append(line)
            # What the scheduler says first may be about nodes that are not ready yet.
            if UNFIT.search(line):
                running.send_signal(signal.SIGINT)
                break
        running.stderr.read()
    inferplan(tmp_path / "state", "down", "staging", "--engine", "rehearsal", "--cluster")
    assert UNFIT.search(heard[-1]), heard[-5:]
    assert running.returncode != 0
