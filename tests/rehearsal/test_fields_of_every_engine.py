"""One stack with every engine, each with every field that all of them share: the API server, the
scheduler and Kueue's own definitions take them.

Kueue itself does not run here: that objects and labels are accepted and complete is shown; what it
admits is in test_kueue.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.progress import silent
from inferplan.rehearsal.apply.run import apply
from inferplan.rehearsal.cluster import delete, start
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.workspace.workspace import open_workspace

pytestmark = [pytest.mark.cluster, pytest.mark.full]

ROOT = Path(__file__).resolve().parents[2]
QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
SHARED: dict[str, Any] = {
    "queue": "serving",
    "queuePriority": "online",
    "affinity": {
        "requiredNodes": [{"key": "topology.kubernetes.io/zone", "values": ["zone-b"]}],
        "preferredNodes": [{"key": "acme.example/nvme", "operator": "Exists", "weight": 50}],
    },
    "resources": {"cpu": "3", "memory": "24Gi"},
    "env": {"TEAM": "search"},
    "labels": {"acme.example/team": "search"},
    "sharedMemory": "1Gi",
    "consumers": ["chat"],
    "preheat": {"into": "shared"},
}
LLAMA = {
    "store": "weights",
    "path": "llama-3-8b",
    "revision": "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2",
    "size": "16Gi",
}
LARGE = {
    "store": "weights",
    "path": "llama-3-405b",
    "revision": "be673f326cab4cd22ccfef76109faf68e41aa5f1",
    "size": "812Gi",
}
# By model: its own fields, a custom parameter among them, and the words of that parameter where the
# engine reads it.
ENGINES: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({"engine": "vllm", "pool": "l40s", "extraArgs": ["--seed=7"]}, "--seed=7"),
    "wide": (
        {"engine": "vllm", "pool": "h100", "weights": LARGE, "tensorParallelSize": 8, "pipelineParallelSize": 2, "nnodes": 2,
         "extraArgs": ["--seed=8"], "resources": {"cpu": "3", "memory": "900Gi"}},
        "--seed=8",
    ),
    "gaudi": (
        {"engine": "vllm", "pool": "gaudi2", "extraArgs": ["--seed=9"], "resources": {"cpu": "3", "memory": "24Gi", "hugepages2Mi": "10Gi"}},
        "--seed=9",
    ),
    "writer": ({"engine": "triton", "pool": "l40s", "repository": {"text": {"kind": "textGeneration", "parameters": {"style": "brief"}}}}, "brief"),
    "fast": ({"engine": "tensorrt-llm", "pool": "l40s", "maxSeqLen": 8192, "llmArgs": {"enable_chunked_prefill": True}}, "enable_chunked_prefill"),
    "built": (
        {"engine": "tensorrt-llm", "pool": "l40s", "maxSeqLen": 8192, "build": {"modelFamily": "llama"}, "parameters": {"enable_kv_cache_reuse": "true"}},
        "enable_kv_cache_reuse",
    ),
    "bound": ({"engine": "pytriton", "image": "docker.io/acme/pytriton:0.7.0-1", "pool": "l40s", "parameters": {"style": "terse"}}, "terse"),
    "served": (
        {"engine": "ray-serve", "image": "docker.io/rayproject/ray-llm:2.56.0-py312-cu130", "rayVersion": "2.56.0", "pool": "l40s",
         "applications": {"llm": {"kind": "llm", "engineKwargs": {"seed": 10}}}},
        "seed: 10",
    ),
}  # fmt: skip
# Kueue admits no RayService that scales its own workers, so this one waits in no queue.
SCALING = {
    **{key: value for key, value in SHARED.items() if not key.startswith("queue")},
    **ENGINES["served"][0],
    "weights": LLAMA,
    "workerAutoscaling": {"maxReplicas": 2},
    "gcsFaultTolerance": {"redisAddress": "redis.storage:6379", "passwordSecret": "redis"},
}
SECTIONS: dict[str, Any] = {
    "cluster": {"provider": "simulated"},
    "nodePools": {
        "l40s": {"provider": "simulated", "accelerator": "nvidia-l40s", "instanceType": "g6e.12xlarge", "nodes": 6, "zones": ["zone-a", "zone-b"]},
        "h100": {"provider": "simulated", "accelerator": "nvidia-h100", "nodes": 2, "zones": ["zone-b"]},
        "gaudi2": {"provider": "simulated", "accelerator": "gaudi-2", "nodes": 1, "zones": ["zone-b"]},
        "system": {"provider": "simulated", "nodes": 2, "zones": ["zone-a", "zone-b"]},
    },
    "queues": {
        "serving": {
            "pools": {"l40s": {"accelerators": 16}, "h100": {}, "gaudi2": {}},
            "cohort": "acme",
            "priorities": {"online": 1000, "batch": 10},
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
    },
    "benchmark": {"models": ["plain", "writer"], "consumer": "chat", "tokenizer": "plain", "promptTokens": [128, 1024]},
    "models": {**{name: {**SHARED, "weights": LLAMA, **own} for name, (own, _) in ENGINES.items()}, "scaling": SCALING},
}  # fmt: skip


SECTIONS["models"]["bound"] = {
    **SECTIONS["models"]["bound"],
    "affinity": {**SHARED["affinity"], "apartFrom": ["plain"]},
}
SECTIONS["models"]["writer"] = {
    **SECTIONS["models"]["writer"],
    "affinity": {**SHARED["affinity"], "beside": ["plain"]},
}


@pytest.fixture(scope="module")
def get(state_directory, tmp_path_factory):  # noqa: ARG001 - it must be set before a cluster starts
    """A way to ask the cluster that the stack is up on."""
    local = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    head, rest = (
        local[: local.index("  inferplan:cluster:")],
        local[local.index("  inferplan:gateway:") :],
    )
    storage = local[local.index("  inferplan:storage:") : local.index("  inferplan:models:")]
    sections = "".join(
        f"  inferplan:{name}: {json.dumps(value)}\n" for name, value in SECTIONS.items()
    )
    path = tmp_path_factory.mktemp("stack") / "Pulumi.fields.yaml"
    path.write_text(head + sections + storage + rest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        patch.chdir(ROOT)
        workspace, cluster = open_workspace(str(path)), start("fields")
        given: Any = {**workspace.engine_input(), "ensure_crds": installer(cluster, silent)}
        apply(workspace.rehearsed, cluster, **given)
        yield cluster.get
        delete("fields")


@pytest.fixture(scope="module")
def pods(get):
    """The pods of each model that hold its cards, and what else of the namespace the model's name
    stands on.
    """
    listed = get("/api/v1/namespaces/inference/pods")["items"]
    return {
        name: [
            pod
            for pod in listed
            if labels_of(pod).get("app.kubernetes.io/instance") == name
            and server_of(pod) is not None
        ]
        for name in SECTIONS["models"]
    }


def labels_of(thing):
    return thing["metadata"].get("labels", {})


def server_of(pod) -> Any:
    """The container of a model's pod that holds cards."""
    if labels_of(pod).get("app.kubernetes.io/component") != "model":
        return None
    return next(
        (
            each
            for each in pod["spec"]["containers"]
            if {"nvidia.com/gpu", "habana.ai/gaudi"}
            & set(each.get("resources", {}).get("limits", {}))
        ),
        None,
    )


def workload_of(name, get):
    """The object that Kueue admits."""
    if name == "wide":
        return get(
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/inference/leaderworkersets/wide-group"
        )
    if name in ("served", "scaling"):
        return get(f"/apis/ray.io/v1/namespaces/inference/rayservices/{name}")
    return get(f"/apis/apps/v1/namespaces/inference/deployments/{name}")


@pytest.mark.parametrize("name", SECTIONS["models"])
def test_engines_apply_declared_placement_resources_variables_and_labels(name, get, pods):
    zones = {
        each["metadata"]["name"]: labels_of(each)["topology.kubernetes.io/zone"]
        for each in get("/api/v1/nodes")["items"]
    }
    assert len(pods[name]) == (2 if name == "wide" else 1)
    wanted = SECTIONS["models"][name]["resources"]
    for pod in pods[name]:
        server = server_of(pod)
        assert zones[pod["spec"]["nodeName"]] == "zone-b"
        assert pod["spec"]["nodeName"].startswith(SECTIONS["models"][name]["pool"])
        [preferred] = pod["spec"]["affinity"]["nodeAffinity"][
            "preferredDuringSchedulingIgnoredDuringExecution"
        ]
        assert preferred["weight"] == 50
        assert {"name": "TEAM", "value": "search"} in server["env"]
        assert labels_of(pod)["acme.example/team"] == "search"
        requests = server["resources"]["requests"]
        assert (requests["cpu"], requests["memory"]) == (wanted["cpu"], wanted["memory"])
        assert requests.get("hugepages-2Mi") == wanted.get("hugepages2Mi")


def test_models_follow_declared_affinity_and_anti_affinity(pods):
    nodes = {
        name: {pod["spec"]["nodeName"] for pod in pods[name]}
        for name in ("plain", "bound", "writer")
    }
    assert nodes["writer"] == nodes["plain"]
    assert nodes["bound"].isdisjoint(nodes["plain"])


@pytest.mark.parametrize("name", ENGINES)
def test_custom_parameter_is_where_each_engine_reads_it(name, get):
    files = [
        each
        for each in get("/api/v1/namespaces/inference/configmaps")["items"]
        if labels_of(each).get("app.kubernetes.io/instance") == name
    ]
    read = json.dumps([workload_of(name, get)["spec"], *(each.get("data") for each in files)])
    assert ENGINES[name][1] in read


@pytest.mark.parametrize("name", ENGINES)
def test_admitted_objects_name_their_queue_which_has_quota_for_their_pods(name, get):
    labels = labels_of(workload_of(name, get))
    assert (labels[QUEUE], labels[PRIORITY]) == ("serving", "inference-serving-online")
    [queue] = get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues")["items"]
    covered = {
        each for group in queue["spec"]["resourceGroups"] for each in group["coveredResources"]
    }
    mine = [
        each
        for each in get("/api/v1/namespaces/inference/pods")["items"]
        if labels_of(each).get("app.kubernetes.io/instance") == name
    ]
    for pod in mine:
        for container in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]:
            assert set(container.get("resources", {}).get("requests", {})) <= covered


def test_engine_build_job_is_queued(get):
    [job] = [
        each
        for each in get("/apis/batch/v1/namespaces/inference/jobs")["items"]
        if each["metadata"]["name"].startswith("built-engines")
    ]
    assert labels_of(job)[QUEUE] == "serving"


def test_head_of_autoscaling_ray_cluster_is_admitted_with_its_autoscaler(get):
    heads = [
        each
        for each in get("/api/v1/namespaces/inference/pods")["items"]
        if labels_of(each).get("ray.io/node-type") == "head"
    ]
    names = {
        labels_of(each)["ray.io/cluster"].rpartition("-")[0]: [
            c["name"] for c in each["spec"]["containers"]
        ]
        for each in heads
    }
    assert names == {"served": ["ray-head"], "scaling": ["ray-head", "autoscaler"]}


def test_definitions_of_kueue_accept_the_objects(get):
    [queue] = get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues")["items"]
    assert queue["metadata"]["name"] == "inference-serving"
    # Fields that a definition does not know are dropped; these came back from the server.
    [group] = queue["spec"]["resourceGroups"]
    assert {flavor["name"] for flavor in group["flavors"]} == {
        "inference-l40s",
        "inference-h100",
        "inference-gaudi2",
    }
    assert queue["spec"]["preemption"]["withinClusterQueue"] == "LowerPriority"
    classes = get("/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses")["items"]
    assert {each["metadata"]["name"]: each["value"] for each in classes} == {
        "inference-serving-online": 1000,
        "inference-serving-batch": 10,
    }
    [local] = get("/apis/kueue.x-k8s.io/v1beta2/namespaces/inference/localqueues")["items"]
    assert local["spec"]["clusterQueue"] == "inference-serving"


def test_comparison_job_is_admitted_and_avoids_accelerator_nodes(get):
    [job] = [
        each
        for each in get("/apis/batch/v1/namespaces/inference/jobs")["items"]
        if labels_of(each)["app.kubernetes.io/component"] == "benchmark"
    ]
    [pod] = [
        each
        for each in get("/api/v1/namespaces/inference/pods")["items"]
        if labels_of(each).get("app.kubernetes.io/component") == "benchmark"
    ]
    assert pod["metadata"]["ownerReferences"][0]["name"] == job["metadata"]["name"]
    assert pod["spec"]["nodeName"].startswith("system-")
