"""Fake nodes under the real scheduler: pods land where the hardware would take them, and nowhere
else.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter

from inferplan.components.nodes.fake_nodes import fake_nodes
from inferplan.components.nodes.node_pool import NodePool, RuntimeClasses
from inferplan.components.pools import NodePoolSpec
from inferplan.kube.api import Api, ApiError
from inferplan.rehearsal.apply.run import apply, down
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from inferplan.rehearsal.cluster import Cluster

pytestmark = pytest.mark.cluster

NAMESPACE = "nodes-under-test"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GPU = {"key": "nvidia.com/gpu", "operator": "Exists"}
GAUDI = {"key": "habana.ai/gaudi", "operator": "Exists"}
ANYTHING = {"operator": "Exists"}
POOLS = {
    name: TypeAdapter(NodePoolSpec).validate_python({"provider": "simulated", **fields})
    for name, fields in {
        "l40s": {
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.12xlarge",
            "nodes": 2,
            "zones": ["zone-a", "zone-b"],
        },
        "gaudi2": {"accelerator": "gaudi-2", "nodes": 1},
        "system": {"nodes": 1},
    }.items()
}


def declare_pools(pools: dict[str, Any]) -> Callable[[], None]:
    def program() -> None:
        RuntimeClasses("runtime-classes", ("habana",))
        for name, spec in pools.items():
            NodePool(name, spec)

    return program


def until(
    api: Api,
    collection: str,
    name: str,
    reached: Callable[[dict[str, Any]], Any],
    seconds: int = PATIENCE_SECONDS,
) -> dict[str, Any]:
    """The object `name` as it is when `reached` of it is true; fails with its last state after
    `seconds`.
    """
    only = {"fieldSelector": f"metadata.name={name}"}
    listed = api.request("GET", collection, query=only)
    last = listed["items"][0] if listed["items"] else {}
    if last and reached(last):
        return last
    query = {
        **only,
        "resourceVersion": listed["metadata"]["resourceVersion"],
        "timeoutSeconds": str(seconds),
    }
    for kind, live in api.watch(collection, query):
        last = last if kind == "BOOKMARK" else live
        if kind != "BOOKMARK" and reached(live):
            return live
    raise AssertionError(f"{name} did not get there within {seconds} s; it is {last}")


def condition(live: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(
        (each for each in live.get("status", {}).get("conditions", ()) if each["type"] == kind), {}
    )


def open_for_pods(node: dict[str, Any]) -> bool:
    """Ready, and no longer tainted for not having been: the scheduler turns pods down until the
    taint is off.
    """
    taints = [each["key"] for each in node["spec"].get("taints", ())]
    return condition(node, "Ready").get("status") == "True" and not any(
        key.startswith("node.kubernetes.io/") for key in taints
    )


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[Api]:
    client = cluster.api()
    apply(declare_pools(POOLS), cluster, project="inferplan", stack="nodes")
    ours = {
        node["metadata"]["name"] for name, spec in POOLS.items() for node in fake_nodes(name, spec)
    }
    there = {node["metadata"]["name"] for node in client.request("GET", "/api/v1/nodes")["items"]}
    assert there == ours, (
        f"these tests count nodes, and another module left {sorted(there - ours)} behind"
    )
    client.request(
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    )
    until(client, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", "default", lambda _: True)
    for name in sorted(ours):
        until(client, "/api/v1/nodes", name, open_for_pods)
    yield client
    client.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    down(cluster)
    client.close()


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def place(api: Api, numbers: Iterator[int]) -> Iterator[Callable[..., dict[str, Any]]]:
    """Creates a pod and returns it when the scheduler has spoken; removes it afterwards, so that
    each test finds empty nodes.
    """
    names: list[str] = []

    def create(
        resources: dict[str, str], *tolerations: dict[str, str], **spec: Any
    ) -> dict[str, Any]:
        # Never a name twice: a kubelet may still be at the end of the pod that bore it in an
        # earlier test.
        name = f"pod-{next(numbers)}"
        container = {
            "name": "main",
            "image": "registry.test/none:1",
            "resources": {"requests": resources, "limits": resources},
        }
        body = {
            "containers": [container],
            "tolerations": list(tolerations),
            "terminationGracePeriodSeconds": 0,
            **spec,
        }
        api.request(
            "POST",
            PODS,
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body},
        )
        names.append(name)
        return until(api, PODS, name, lambda pod: condition(pod, "PodScheduled"))

    yield create
    for name in names:
        api.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})


def refusal(pod: dict[str, Any]) -> str:
    """The scheduler's reason why `pod` stays Pending."""
    assert condition(pod, "PodScheduled")["status"] == "False", pod["spec"].get("nodeName")
    return condition(pod, "PodScheduled")["message"]


@pytest.mark.parametrize("name", POOLS)
def test_nodes_become_ready_with_capacity_of_the_real_instance_type(api, name):
    for node in fake_nodes(name, POOLS[name]):
        live = until(api, "/api/v1/nodes", node["metadata"]["name"], open_for_pods)
        assert live["status"]["allocatable"] == node["status"]["allocatable"]
        assert live["status"]["capacity"] == node["status"]["capacity"]
        assert live["metadata"]["labels"].items() >= node["metadata"]["labels"].items()


def test_gpu_pods_fill_gpu_nodes_and_next_pod_reports_missing_accelerators(place):
    cards = {"nvidia.com/gpu": "4", "cpu": "1", "memory": "1Gi"}
    assert {place(cards, ANYTHING)["spec"]["nodeName"] for _ in range(2)} == {"l40s-0", "l40s-1"}
    assert "Insufficient nvidia.com/gpu" in refusal(place(cards, ANYTHING))


def test_a_cpu_pod_goes_to_the_cpu_node_however_large_the_accelerator_nodes_are(place):
    assert place({"cpu": "1", "memory": "1Gi"})["spec"]["nodeName"] == "system-0"


def test_taint_keeps_large_cpu_pod_off_accelerator_nodes(place):
    reason = refusal(place({"cpu": "20", "memory": "1Gi"}))
    assert "3 node(s) had untolerated taint(s)" in reason
    assert "1 Insufficient cpu" in reason


def test_gaudi_pod_with_huge_pages_runs_on_gaudi_only(place):
    wants = {"habana.ai/gaudi": "2", "hugepages-2Mi": "23600Mi", "cpu": "8", "memory": "64Gi"}
    assert place(wants, ANYTHING, runtimeClassName="habana")["spec"]["nodeName"] == "gaudi2-0"


def test_toleration_of_another_vendor_does_not_admit_to_gaudi_nodes(place):
    reason = refusal(place({"habana.ai/gaudi": "1", "cpu": "1", "memory": "1Gi"}, GPU))
    assert "1 node(s) had untolerated taint(s)" in reason
    assert "3 Insufficient habana.ai/gaudi" in reason


@pytest.mark.parametrize(
    ("wants", "missing"),
    [
        ({"habana.ai/gaudi": "9", "cpu": "1", "memory": "1Gi"}, "Insufficient habana.ai/gaudi"),
        (
            {"habana.ai/gaudi": "1", "cpu": "1", "memory": "1Gi", "hugepages-2Mi": "95002Mi"},
            "Insufficient hugepages-2Mi",
        ),
        ({"habana.ai/gaudi": "1", "cpu": "1", "memory": "900Gi"}, "Insufficient memory"),
        ({"habana.ai/gaudi": "1", "cpu": "159531m", "memory": "1Gi"}, "Insufficient cpu"),
    ],
)
def test_a_pod_that_is_too_large_stays_pending_with_the_schedulers_reason(place, wants, missing):
    assert missing in refusal(place(wants, GAUDI))


def test_pod_that_requests_all_allocatable_resources_fits(place):
    offered = fake_nodes("gaudi2", POOLS["gaudi2"])[0]["status"]["allocatable"]
    wants = {key: amount for key, amount in offered.items() if key != "pods"}
    assert place(wants, GAUDI)["spec"]["nodeName"] == "gaudi2-0"


def test_pod_with_unknown_runtime_class_is_rejected(place):
    with pytest.raises(ApiError, match='RuntimeClass "kata" not found'):
        place({"cpu": "1", "memory": "1Gi"}, runtimeClassName="kata")


def test_applying_the_same_pools_again_changes_nothing(api, cluster):
    del api
    assert (
        apply(declare_pools(POOLS), cluster, project="inferplan", stack="nodes").total_changes == 0
    )


def test_another_instance_type_replaces_the_nodes(api, cluster):
    smaller = POOLS["l40s"].model_copy(update={"instance_type": "g6e.4xlarge"})
    outcome = apply(
        declare_pools(POOLS | {"l40s": smaller}), cluster, project="inferplan", stack="nodes"
    )
    try:
        assert {target.name for target in outcome.replaced} == {"l40s-0", "l40s-1"}
        live = until(api, "/api/v1/nodes", "l40s-0", open_for_pods)
        assert live["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    finally:
        apply(declare_pools(POOLS), cluster, project="inferplan", stack="nodes")
