"""LeaderWorkerSets and RayServices without an operator: their pods are scheduled, and the status
says that no operator runs.
"""

from __future__ import annotations

import re

import pulumi
import pytest
from pulumi_kubernetes.apiextensions import CustomResource

from inferplan.progress import silent
from inferplan.rehearsal.apply.run import apply, down
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.rehearsal.wait.object_events import ApplyFailed, Ready, Waiting
from tests.patience import PATIENCE_SECONDS
from tests.rehearsal.engine_programs import PROJECT, Node, api_of, pod

pytestmark = pytest.mark.cluster

LWS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
RAY = "/apis/ray.io/v1/namespaces/default/rayservices"


@pytest.fixture
def up(cluster, request):
    """Applies programs as one stack of this test, and takes them down afterwards."""
    stack = re.sub("[^a-z0-9]+", "-", request.node.name)[:60]
    yield lambda program, **more: apply(
        program,
        cluster,
        project=PROJECT,
        stack=stack,
        ensure_crds=installer(cluster, silent),
        **more,
    )
    down(cluster)


def declared(api_version, kind, name, spec, condition, seconds=PATIENCE_SECONDS, *, forced=False):
    limit = pulumi.CustomTimeouts(create=f"{seconds}s", update=f"{seconds}s")
    annotations = {
        "pulumi.com/waitFor": f"condition={condition}",
        **({"pulumi.com/patchForce": "true"} if forced else {}),
    }
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    CustomResource(
        name,
        api_version=api_version,
        kind=kind,
        metadata=metadata,
        spec=spec,
        opts=pulumi.ResourceOptions(custom_timeouts=limit),
    )


def group(name, *, pools=2, replicas=1, size=2, image="server:1", seconds=PATIENCE_SECONDS):
    """`pools` nodes of eight cards, and groups of `size` pods that ask for eight each."""

    def program():
        for number in range(pools):
            Node(f"{name}-{number}")
        template = {"metadata": {"labels": {"w": name}}, "spec": pod(8, image=image)}
        inner = {"size": size, "leaderTemplate": template, "workerTemplate": template}
        spec = {"replicas": replicas, "leaderWorkerTemplate": inner}
        declared("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, spec, "Available", seconds)

    return program


def service(
    name, *, workers=2, image="server:1", strategy="NewCluster", suspended=False, forced=False
):
    """A node, and a Ray cluster with a head without cards and `workers` with two each."""

    def program():
        Node(f"{name}-0")
        groups = [
            {
                "groupName": "workers",
                "replicas": workers,
                "template": {"spec": pod(2, f"{name}-0", image)},
            }
        ]
        cluster = {
            "headGroupSpec": {"template": {"spec": pod(0, f"{name}-0", image)}},
            "workerGroupSpecs": groups,
        }
        cluster |= {"suspend": True} if suspended else {}
        spec = {
            "serveConfigV2": "applications: []",
            "upgradeStrategy": {"type": strategy},
            "rayClusterConfig": cluster,
        }
        declared("ray.io/v1", "RayService", name, spec, "Ready", forced=forced)

    return program


def pods(cluster, label):
    found = api_of(cluster).request(
        "GET", "/api/v1/namespaces/default/pods", query={"labelSelector": label}
    )["items"]
    return {each["metadata"]["name"]: each for each in found}


def ray_pods(cluster, name):
    found = pods(cluster, "ray.io/is-ray-node=yes")
    return {
        pod: each
        for pod, each in found.items()
        if each["metadata"]["labels"]["ray.io/cluster"].rpartition("-")[0] == name
    }


def is_ready(each):
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in each["status"]["conditions"]
    )


def told(live, kind):
    return next(each for each in live["status"]["conditions"] if each["type"] == kind)


def test_group_over_two_nodes_has_leader_and_worker_with_eight_accelerators_each(up, cluster):
    events = []
    up(group("wide"), listener=events.append)
    found = pods(cluster, "leaderworkerset.sigs.k8s.io/name=wide")
    assert sorted(found) == ["wide-0", "wide-0-1"]
    assert {each["spec"]["nodeName"] for each in found.values()} == {"wide-0", "wide-1"}
    assert all(map(is_ready, found.values()))
    environment = {each["name"]: each for each in found["wide-0-1"]["spec"]["containers"][0]["env"]}
    assert environment["LWS_LEADER_ADDRESS"]["value"] == "wide-0.wide.default"
    assert {
        each["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
        for each in found.values()
    } == {"0"}
    assert found["wide-0-1"]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    available = told(api_of(cluster).request("GET", f"{LWS}/wide"), "Available")
    assert (available["status"], available["reason"]) == ("True", "Rehearsed")
    assert "no LeaderWorkerSet operator runs here" in available["message"]
    assert any(
        isinstance(each, Ready) and "no LeaderWorkerSet operator runs here" in each.note
        for each in events
    )


def test_second_run_keeps_group_and_changed_image_replaces_its_pods_on_full_pool(up, cluster):
    up(group("twice"))
    before = {each["metadata"]["uid"] for each in pods(cluster, "w=twice").values()}
    assert up(group("twice")).total_changes == 0
    assert {each["metadata"]["uid"] for each in pods(cluster, "w=twice").values()} == before
    assert up(group("twice", image="server:2")).total_changes == 1
    after = pods(cluster, "w=twice").values()
    assert {each["spec"]["containers"][0]["image"] for each in after} == {"server:2"}
    assert all(map(is_ready, after))


def test_group_with_unschedulable_pod_is_not_ready_with_message_of_scheduler(up, cluster, patient):
    with pytest.raises(ApplyFailed) as failed:
        up(group("short", pools=1, seconds=1), listener=patient("Insufficient nvidia.com/gpu"))
    (failure,) = failed.value.failures
    assert "Insufficient nvidia.com/gpu" in failure.message
    assert failure.remedy.startswith("request less, or enlarge its pool or quota")
    available = told(api_of(cluster).request("GET", f"{LWS}/short"), "Available")
    assert available["status"] == "False"
    assert "Insufficient nvidia.com/gpu" in available["message"]


def test_removed_group_leaves_no_pod(up, cluster):
    up(group("fewer", pools=4, replicas=2))
    assert len(pods(cluster, "w=fewer")) == 4
    up(group("fewer", pools=4, replicas=1))
    assert sorted(pods(cluster, "w=fewer")) == ["fewer-0", "fewer-0-1"]


def test_ray_service_has_head_and_workers_and_notes_that_no_ray_runs(up, cluster):
    up(service("serve"))
    found = ray_pods(cluster, "serve")
    assert sorted(each["metadata"]["labels"]["ray.io/node-type"] for each in found.values()) == [
        "head",
        "worker",
        "worker",
    ]
    assert all(map(is_ready, found.values()))
    live = api_of(cluster).request("GET", f"{RAY}/serve")
    assert "no KubeRay runs here" in told(live, "Ready")["message"]
    slices = api_of(cluster).request(
        "GET",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        query={"labelSelector": "kubernetes.io/service-name=serve-serve-svc"},
    )["items"]
    assert [each["conditions"]["ready"] for part in slices for each in part["endpoints"]] == [
        True,
        True,
    ]


def test_ray_head_without_serve_port_fails_as_with_kuberay(up):
    ports = [{"name": "dashboard", "containerPort": 8265}]
    head = {
        "template": {"spec": {"containers": [{"name": "head", "image": "a:1", "ports": ports}]}}
    }
    spec = {"serveConfigV2": "applications: []", "rayClusterConfig": {"headGroupSpec": head}}
    with pytest.raises(ApplyFailed, match="KubeRay would create no Service portless-serve-svc"):
        up(lambda: declared("ray.io/v1", "RayService", "portless", spec, "Ready"))


def test_changed_worker_count_keeps_ray_cluster_and_changed_image_creates_another(up, cluster):
    up(service("grown", workers=1))
    before = set(ray_pods(cluster, "grown"))
    up(service("grown", workers=2))
    grown = set(ray_pods(cluster, "grown"))
    assert before < grown
    up(service("grown", workers=2, image="server:2"))
    assert not grown & set(ray_pods(cluster, "grown"))


def test_ray_service_without_upgrade_strategy_keeps_its_cluster_and_names_remedy(up, cluster):
    up(service("kept", strategy="None"))
    before = set(ray_pods(cluster, "kept"))
    events = []
    up(service("kept", strategy="None", image="server:2"), listener=events.append)
    assert set(ray_pods(cluster, "kept")) == before
    assert any(
        isinstance(each, Ready) and "delete the RayService to roll out the change" in each.note
        for each in events
    )


def change_cluster(cluster, name, **fields):
    """What somebody else, such as Kueue, writes into the Ray cluster of a RayService."""
    change = {"spec": {"rayClusterConfig": fields}}
    api_of(cluster).request("PATCH", f"{RAY}/{name}", change, media="application/merge-patch+json")


def test_suspended_ray_service_has_no_pods_until_it_is_resumed(up, cluster):
    seen = []

    def release(event):
        if isinstance(event, Waiting) and event.reason.startswith("it is suspended"):
            seen.append(pods(cluster, "ray.io/originated-from-cr-name=queued"))
            change_cluster(cluster, "queued", suspend=False)

    up(service("queued", suspended=True), listener=release)
    assert seen == [{}]
    assert all(map(is_ready, pods(cluster, "ray.io/originated-from-cr-name=queued").values()))
    assert told(api_of(cluster).request("GET", f"{RAY}/queued"), "Ready")["status"] == "True"


def test_foreign_items_of_a_forced_list_stay_until_the_list_changes(up, cluster):
    up(service("marked", forced=True))
    groups = api_of(cluster).request("GET", f"{RAY}/marked")["spec"]["rayClusterConfig"][
        "workerGroupSpecs"
    ]
    groups[0]["template"].setdefault("metadata", {})["labels"] = {
        "kueue.x-k8s.io/podset": "workers"
    }
    change_cluster(cluster, "marked", workerGroupSpecs=groups)

    def mark():
        [group] = api_of(cluster).request("GET", f"{RAY}/marked")["spec"]["rayClusterConfig"][
            "workerGroupSpecs"
        ]
        return "labels" in (group["template"].get("metadata") or {})

    assert up(service("marked", forced=True)).total_changes == 0
    assert mark()
    assert up(service("marked", forced=True, image="server:2")).total_changes == 1
    assert not mark()


def test_down_deletes_pods_and_services_of_operators(up, cluster):
    up(service("gone"))
    up(lambda: None)
    assert ray_pods(cluster, "gone") == {}
    services = api_of(cluster).request("GET", "/api/v1/namespaces/default/services")["items"]
    assert not [each for each in services if each["metadata"]["name"].startswith("gone-")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"serveConfig": {}}, r"\.spec\.serveConfig: field not declared in schema"),
        ({"upgradeStrategy": {"type": "Rolling"}}, 'Unsupported value: "Rolling"'),
        ({"rayClusterConfig": {}}, "headGroupSpec"),
        (
            {
                "rayClusterConfig": {
                    "headGroupSpec": {"template": {"spec": {"containers": [{"image": "a:1"}]}}}
                }
            },
            r"containers\[0\]\.name",
        ),
        (
            {
                "rayClusterConfig": {
                    "headGroupSpec": {"template": {"spec": {"containers": {"name": "a"}}}}
                }
            },
            "containers",
        ),
        (
            {
                "rayClusterConfig": {
                    "headGroupSpec": {
                        "template": {"spec": {"containers": [{"name": "a", "env": None}]}}
                    }
                }
            },
            "env",
        ),
    ],
)
def test_api_server_rejects_errors_of_older_ray_examples(up, change, words):
    head = {"template": {"spec": {"containers": [{"name": "head", "image": "a:1"}]}}}

    def program():
        spec = {
            "serveConfigV2": "applications: []",
            "rayClusterConfig": {"headGroupSpec": head},
            **change,
        }
        declared("ray.io/v1", "RayService", "old", spec, "Ready")

    with pytest.raises(ApplyFailed, match=words):
        up(program)
