"""Queues, placement and a comparison on the real API server and scheduler: Kueue's own definitions accept the objects, terms are obeyed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rehearsal.cluster import start
from tests.rehearsal.test_stacks import inferplan

pytestmark = [pytest.mark.cluster, pytest.mark.full]

ROOT = Path(__file__).resolve().parents[2]
QUEUES = """  inferplan:queues:
    serving:
      pools: {l40s: {accelerators: 6}, gaudi2: {}}
      cohort: acme
      priorities: {online: 1000, batch: 10}
      preemption: {withinClusterQueue: LowerPriority}
  inferplan:benchmark: {models: [llama-3-8b, llama-3-70b], consumer: chat, tokenizer: llama-3-8b, promptTokens: [128, 1024]}
  inferplan:gateway:"""
PLACED = """      replicas: 1
      queue: serving
      queuePriority: online
      affinity: {requiredNodes: [{key: topology.kubernetes.io/zone, values: [zone-b]}]}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The stack brought up; what `up` said, and a way to ask the cluster."""
    state = tmp_path_factory.mktemp("state")
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    path = tmp_path_factory.mktemp("stack") / "Pulumi.local.yaml"
    assert text.count("      replicas: 2\n") == 1
    path.write_text(text.replace("  inferplan:gateway:", QUEUES).replace("      replicas: 2\n", PLACED))
    done = inferplan(state, "up", str(path), "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr[-3000:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(state))
        yield done.stderr + done.stdout, start("local").get
    inferplan(state, "down", "local", "--engine", "rehearsal", "--cluster")


def test_kueue_s_own_definitions_accept_the_objects(told):
    said, get = told
    assert "Kueue does not run on the simulated cluster" in said
    queues = get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues")["items"]
    assert [each["metadata"]["name"] for each in queues] == ["inference-serving"]
    # Fields that a definition does not know are dropped; these came back from the server.
    [group] = queues[0]["spec"]["resourceGroups"]
    assert {flavor["name"] for flavor in group["flavors"]} == {"inference-l40s", "inference-gaudi2"}
    assert queues[0]["spec"]["preemption"]["withinClusterQueue"] == "LowerPriority"
    classes = get("/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses")["items"]
    assert {each["metadata"]["name"]: each["value"] for each in classes} == {
        "inference-serving-online": 1000,
        "inference-serving-batch": 10,
    }
    [local] = get("/apis/kueue.x-k8s.io/v1beta2/namespaces/inference/localqueues")["items"]
    assert local["spec"]["clusterQueue"] == "inference-serving"


def test_the_workload_and_its_pods_carry_the_queue_and_land_where_the_terms_say(told):
    _, get = told
    model = get("/apis/apps/v1/namespaces/inference/deployments/llama-3-8b")
    assert model["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "serving"
    zones = {each["metadata"]["name"]: each["metadata"]["labels"]["topology.kubernetes.io/zone"] for each in get("/api/v1/nodes")["items"]}
    pods = [
        each
        for each in get("/api/v1/namespaces/inference/pods")["items"]
        if each["metadata"]["labels"].get("kueue.x-k8s.io/queue-name") == "serving"
    ]
    assert [zones[each["spec"]["nodeName"]] for each in pods] == ["zone-b"], json.dumps(pods)[:2000]


def test_the_comparison_is_a_job_that_the_namespace_admits_and_that_runs_off_the_cards(told):
    _, get = told
    [job] = [
        each
        for each in get("/apis/batch/v1/namespaces/inference/jobs")["items"]
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == "benchmark"
    ]
    [pod] = [
        each
        for each in get("/api/v1/namespaces/inference/pods")["items"]
        if each["metadata"]["labels"].get("app.kubernetes.io/component") == "benchmark"
    ]
    assert pod["metadata"]["ownerReferences"][0]["name"] == job["metadata"]["name"]
    assert pod["spec"]["nodeName"].startswith("system-")
