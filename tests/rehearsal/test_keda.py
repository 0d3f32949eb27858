"""KEDA and Prometheus next to a simulated cluster: replicas follow a metric that the test exposes,
by the HPA controller of Kubernetes.

A server that reports no load gets its time to finish: the API server keeps the pod's grace period,
and kwok, which runs no containers, ends the pod at once. That a server finishes its requests in
that time is shown by `tests/dataplane`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from inferplan.components.nodes.fake_nodes import fake_nodes
from inferplan.components.pools import SimulatedPool
from inferplan.errors import ToolchainError
from inferplan.progress import silent
from inferplan.rehearsal.cluster import delete, start
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.rehearsal.cluster.karpenter import karpenter, purchases
from inferplan.rehearsal.cluster.processes import running
from inferplan.workspace.buying import instance_types
from inferplan.workspace.workspace import open_workspace
from tests.patience import PATIENCE_SECONDS
from tests.rehearsal.commands import ROOT, STACK
from tests.rehearsal.keda_operator import keda
from tests.rehearsal.operator_programs import install
from tests.rehearsal.prometheus_server import prometheus
from tests.rehearsal.test_cluster_lifecycle import listening_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.full,
    pytest.mark.timeout(3600),
]  # the first build takes minutes, or more on a busy machine

SPACE = "scaled"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
POOL = SimulatedPool.model_validate(
    {
        "provider": "simulated",
        "accelerator": "nvidia-l40s",
        "instanceType": "g6e.12xlarge",
        "nodes": 2,
    }
)
GRACE = 95


def deployment(name: str, accelerators: int, pool: str) -> dict[str, Any]:
    target = POOL.target(pool)
    container = {
        "name": "server",
        "image": "registry.test/server:1",
        "resources": {"limits": {"nvidia.com/gpu": str(accelerators)}},
        "lifecycle": {"preStop": {"sleep": {"seconds": 15}}},
    }
    pod = {
        "containers": [container],
        "nodeSelector": dict(target.node_selector),
        "tolerations": [{"key": each.key, "operator": "Exists"} for each in target.taints],
        "terminationGracePeriodSeconds": GRACE,
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    # No replicas: the number belongs to the scaler.
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec,
    }


def scaled_object(name: str, address: str, least: int, most: int) -> dict[str, Any]:
    query = f'sum(vllm:num_requests_waiting{{namespace="{SPACE}",pod=~"{name}-.*"}})'
    trigger = {
        "type": "prometheus",
        "name": "waiting-requests",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": address,
            "query": query,
            "threshold": "5",
            "ignoreNullValues": "false",
        },
    }
    down = {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 8, "periodSeconds": 1}],
    }
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicaCount": least,
        "maxReplicaCount": most,
        "pollingInterval": 1,
        "cooldownPeriod": 1,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": down}}},
        "triggers": [trigger],
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def started(state_directory, tmp_path_factory):  # noqa: ARG001 - it must be set before a cluster starts
    """A cluster with KEDA at work and two nodes of 4 accelerators, and the process ids of KEDA's
    programs.
    """
    live = start("keda")
    try:
        with contextlib.ExitStack() as stack:
            try:
                pids = stack.enter_context(keda(live, tmp_path_factory.mktemp("keda") / "run"))
            except ToolchainError as error:
                if "could not be fetched" not in str(error):
                    raise
                pytest.skip(str(error))
            api = live.api()
            for document in [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
                *fake_nodes("lab", POOL),
            ]:
                install(api, document)
            api.close()
            yield live, pids
    finally:
        delete("keda")


@pytest.fixture(scope="module")
def cluster(started):
    return started[0]


@pytest.fixture(scope="module")
def api(cluster):
    client = cluster.api()
    yield client
    client.close()


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed; apt-get install prometheus")
    with prometheus(tmp_path_factory.mktemp("prometheus")) as server:
        yield server


def waiting(name: str, space: str = SPACE) -> str:
    """The series of the requests that wait at one replica of the model `name`."""
    return f'vllm:num_requests_waiting{{namespace="{space}",pod="{name}-5d8f7c9b6d-x2k4q"}}'


def at_gateway(name: str, count: int) -> dict[str, float]:
    """The series of the gateway for the model `name`, which has `count` requests without an answer."""
    labels = f'{{namespace="inference",model="{name}"}}'
    return {
        f"inferplan_gateway_requests_total{labels}": 5,
        f"inferplan_gateway_requests_in_flight{labels}": count,
    }


@pytest.fixture
def model(api, metrics) -> Iterator[Callable[..., str]]:
    """Declares a scaled model and returns its name; it is deleted after the test."""
    names = []

    def declare(
        name: str, *, least: int, most: int, accelerators: int = 2, pool: str = "lab"
    ) -> str:
        install(api, deployment(name, accelerators, pool))
        install(api, scaled_object(name, metrics.address, least, most))
        names.append(name)
        return name

    yield declare
    for name in names:
        api.request("DELETE", f"/apis/keda.sh/v1alpha1/namespaces/{SPACE}/scaledobjects/{name}")
        api.request("DELETE", f"{DEPLOYMENTS}/{name}")


def until(
    api, collection: str, name: str, reached: Callable[[dict[str, Any]], Any]
) -> dict[str, Any]:
    """The object `name` when `reached` of it is true."""
    query = {"fieldSelector": f"metadata.name={name}", "timeoutSeconds": str(PATIENCE_SECONDS)}
    last: dict[str, Any] = {}
    with contextlib.closing(api.watch(collection, query)) as watch:
        for kind, live in watch:
            if kind in ("ADDED", "MODIFIED"):
                last = live
                if reached(live):
                    return live
    raise AssertionError(f"{name} did not get there: {last.get('spec')} {last.get('status')}")


def ready(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda live: (
        (
            live["spec"].get("replicas"),
            live["status"].get("readyReplicas", 0),
            live["status"].get("replicas", 0),
        )
        == (count,) * 3
    )


def test_replicas_follow_the_load_up_and_down(api, metrics, model):
    metrics.values = {waiting("chat"): 0}
    name = model("chat", least=1, most=4)
    until(api, DEPLOYMENTS, name, ready(1))
    metrics.values = {waiting("chat"): 12}
    until(api, DEPLOYMENTS, name, ready(3))
    metrics.values = {waiting("chat"): 900}
    until(api, DEPLOYMENTS, name, ready(4))
    nodes = {
        pod["spec"]["nodeName"]
        for pod in api.request("GET", PODS, query={"labelSelector": "app=chat"})["items"]
    }
    assert nodes == {"lab-0", "lab-1"}
    metrics.values = {waiting("chat"): 2}
    until(api, DEPLOYMENTS, name, ready(1))


def test_model_scales_to_zero_and_back(api, metrics, model):
    metrics.values = {waiting("rare"): 3}
    name = model("rare", least=0, most=2)
    until(api, DEPLOYMENTS, name, ready(1))
    metrics.values = {waiting("rare"): 0}
    until(api, DEPLOYMENTS, name, ready(0))
    metrics.values = {waiting("rare"): 9}
    until(api, DEPLOYMENTS, name, ready(2))
    metrics.values = {waiting("rare"): 0}
    until(api, DEPLOYMENTS, name, ready(0))


def is_blind(live: dict[str, Any]) -> bool:
    """True if a scaler knows that a metric is missing."""
    return any(
        each["type"] == "ScalingActive" and each["status"] == "False"
        for each in live.get("status", {}).get("conditions", [])
    )


def test_a_metric_that_is_missing_keeps_the_replicas(api, metrics, model):
    metrics.values = {waiting("blind"): 10}
    name = model("blind", least=1, most=3)
    until(api, DEPLOYMENTS, name, ready(2))
    metrics.values = {}
    path = f"/apis/autoscaling/v2/namespaces/{SPACE}/horizontalpodautoscalers"

    until(api, path, "keda-hpa-blind", is_blind)
    assert api.request("GET", f"{DEPLOYMENTS}/{name}")["spec"]["replicas"] == 2


@pytest.fixture
def up(cluster, metrics, tmp_path, monkeypatch, ranged, least):
    """Brings up the local stack with the model `ranged`, whose replicas are a range, and returns
    the outcome.

    Each test has a model of its own: the HPA controller counts what it added in the last period by
    the scaler's name, so a second model of the name stays at one replica until the period ends
    (ScaleUpLimit), which is 382 s here (docs/scaling.md).
    """
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    monkeypatch.chdir(ROOT)
    head, rest = (
        STACK[: STACK.index("  inferplan:models:")],
        STACK[STACK.index("  inferplan:gateway:") :],
    )
    model = {
        "engine": "vllm",
        "weights": {
            "store": "weights",
            "path": "llama-3-8b",
            "revision": "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2",
            "size": "16Gi",
        },
        "preheat": {"into": "shared"},
        "pool": "l40s",
        "consumers": ["chat", "batch"],
        "replicas": {"min": least, "max": 2, "on": {"waitingRequests": 5}, "cooldownSeconds": 30},
    }
    sections = {
        "models": {ranged: model},
        "monitoring": {"prometheus": {"namespace": "monitoring", "url": metrics.address}},
    }
    path = tmp_path / "Pulumi.scaled.yaml"
    path.write_text(
        head
        + "".join(f"  inferplan:{name}: {json.dumps(value)}\n" for name, value in sections.items())
        + rest
    )
    workspace = open_workspace(str(path))
    return lambda: workspace.apply(cluster, listener=lambda _event: None, step=silent)


STACK_DEPLOYMENTS = "/apis/apps/v1/namespaces/inference/deployments"


@pytest.mark.parametrize(("ranged", "least"), [("woken", 0)])
def test_requests_at_the_gateway_start_a_model_without_replicas(api, metrics, up, ranged):
    metrics.values = at_gateway(ranged, 0)
    up()
    until(api, STACK_DEPLOYMENTS, ranged, ready(0))
    metrics.values = at_gateway(ranged, 1)
    until(api, STACK_DEPLOYMENTS, ranged, ready(1))
    metrics.values = {waiting(ranged, "inference"): 12, **at_gateway(ranged, 1)}
    until(api, STACK_DEPLOYMENTS, ranged, ready(2))
    metrics.values = {waiting(ranged, "inference"): 0, **at_gateway(ranged, 0)}
    until(api, STACK_DEPLOYMENTS, ranged, ready(0))


def unchanged(api, name: str, replicas: int, seconds: int) -> None:
    """Follow the workload for `seconds`: nobody changes its number of replicas."""
    query = {"fieldSelector": f"metadata.name={name}", "timeoutSeconds": str(seconds)}
    with contextlib.closing(api.watch(STACK_DEPLOYMENTS, query)) as watch:
        assert {
            live["spec"]["replicas"] for kind, live in watch if kind in ("ADDED", "MODIFIED")
        } == {replicas}


@pytest.mark.parametrize(("ranged", "least"), [("busy", 0)])
def test_busy_replicas_stay_when_prometheus_loses_its_targets(api, metrics, up, ranged):
    """With min: 0 too, for longer than the cooldown of 30 s: an empty answer is no load of zero."""
    scalers = "/apis/autoscaling/v2/namespaces/inference/horizontalpodautoscalers"
    busy = {waiting(ranged, "inference"): 12, **at_gateway(ranged, 1)}
    metrics.values = dict(busy)
    up()
    until(api, STACK_DEPLOYMENTS, ranged, ready(2))

    def lost_series() -> None:
        """The model's pods are not scraped any more, and the gateway's are, which have no request."""
        metrics.values = at_gateway(ranged, 0)

    def down() -> None:
        metrics.down = True

    def no_targets() -> None:
        metrics.list_targets()

    for lose in (lost_series, down, no_targets):
        lose()
        until(api, scalers, f"keda-hpa-{ranged}", is_blind)
        unchanged(api, ranged, 2, 75)
        metrics.values, metrics.down = dict(busy), False
        metrics.list_targets(metrics.target)
        until(api, scalers, f"keda-hpa-{ranged}", lambda live: not is_blind(live))
    metrics.values = {waiting(ranged, "inference"): 0, **at_gateway(ranged, 0)}
    until(api, STACK_DEPLOYMENTS, ranged, ready(0))


@pytest.mark.parametrize(("ranged", "least"), [("steady", 1)])
def test_scaled_object_of_a_stack_works_and_updates_keep_its_replicas(api, metrics, up, ranged):
    metrics.values = {waiting(ranged, "inference"): 0}
    up()
    until(api, STACK_DEPLOYMENTS, ranged, ready(1))
    metrics.values = {waiting(ranged, "inference"): 12}
    until(api, STACK_DEPLOYMENTS, ranged, ready(2))
    assert up().total_changes == 0
    assert api.request("GET", f"{STACK_DEPLOYMENTS}/{ranged}")["spec"]["replicas"] == 2
    metrics.values = {waiting(ranged, "inference"): 0}
    until(api, STACK_DEPLOYMENTS, ranged, ready(1))


@pytest.fixture
def karpenter_pool(cluster, api):
    """Karpenter at work, with a node pool `bought` of machines with one accelerator, which it ends
    as soon as they are empty.
    """
    define = installer(cluster, silent)
    for group in ("karpenter.sh", "eks.amazonaws.com"):
        define(group)
    machine = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": ["g6e.2xlarge"],
    }
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    node_class = {
        "role": "nodes",
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
    }
    node_pool = {
        "limits": {"nvidia.com/gpu": "4"},
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "1s",
            "budgets": [{"nodes": "4"}],
        },
        "template": {
            "metadata": {"labels": POOL.target("bought").node_selector},
            "spec": {
                "nodeClassRef": {
                    "group": "eks.amazonaws.com",
                    "kind": "NodeClass",
                    "name": "bought",
                },
                "requirements": [machine, on_demand],
                "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            },
        },
    }
    install(
        api,
        {
            "apiVersion": "eks.amazonaws.com/v1",
            "kind": "NodeClass",
            "metadata": {"name": "bought"},
            "spec": node_class,
        },
    )
    install(
        api,
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "bought"},
            "spec": node_pool,
        },
    )
    with karpenter(cluster, instance_types(["us-east-1a", "us-east-1b"])):
        yield


def test_nodes_follow_replicas_and_nodes_with_servers_stay(
    api,
    metrics,
    cluster,
    karpenter_pool,  # noqa: ARG001 - Karpenter must run
    model,
):
    metrics.values = {waiting("wide"): 15}
    model("wide", least=1, most=3, accelerators=1, pool="bought")
    until(api, DEPLOYMENTS, "wide", ready(3))
    assert sum(each.count for each in purchases(cluster)) == 3
    listed = api.request("GET", "/api/v1/nodes", query={"labelSelector": "karpenter.sh/nodepool"})
    query = {
        "labelSelector": "karpenter.sh/nodepool",
        "resourceVersion": listed["metadata"]["resourceVersion"],
    }
    metrics.values = {waiting("wide"): 0}
    with contextlib.closing(
        api.watch("/api/v1/nodes", {**query, "timeoutSeconds": str(PATIENCE_SECONDS)})
    ) as watch:
        gone = (live["metadata"]["name"] for kind, live in watch if kind == "DELETED")
        ended = {next(gone), next(gone)}
    until(api, DEPLOYMENTS, "wide", ready(1))
    [pod] = api.request("GET", PODS, query={"labelSelector": "app=wide"})["items"]
    assert pod["spec"]["nodeName"] in {node["metadata"]["name"] for node in listed["items"]} - ended
    # It is one of the first three: Karpenter replaced no server.
    assert (
        pod["metadata"]["creationTimestamp"] <= listed["items"][0]["metadata"]["creationTimestamp"]
    )
    assert sum(each.count for each in purchases(cluster)) == 1


def test_the_operators_listen_on_this_machine_only(started, karpenter_pool):  # noqa: ARG001 - Karpenter must run
    live, pids = started
    assert listening_addresses([*pids, *running(live.directory)["karpenter"]]) == {"0100007F"}


def test_removed_replica_gets_grace_period_of_its_pod(api, metrics, model):
    metrics.values = {waiting("drain"): 15}
    name = model("drain", least=1, most=3)
    until(api, DEPLOYMENTS, name, ready(3))
    graces: dict[str, int] = {}
    listed = api.request("GET", PODS)["metadata"]["resourceVersion"]
    watch = api.watch(
        PODS,
        {
            "labelSelector": f"app={name}",
            "resourceVersion": listed,
            "timeoutSeconds": str(PATIENCE_SECONDS),
        },
    )

    def follow() -> None:
        for _, live in watch:
            metadata = live["metadata"]
            if "deletionTimestamp" in metadata:
                graces.setdefault(
                    metadata["name"], metadata["deletionGracePeriodSeconds"]
                )  # kwok deletes the pod again, with 0

    thread = threading.Thread(target=follow)
    thread.start()
    metrics.values = {waiting("drain"): 0}
    until(api, DEPLOYMENTS, name, ready(1))
    watch.close()
    thread.join()
    assert list(graces.values()) == [GRACE, GRACE]
