"""Samples of `tests/unit/serving/test_rollouts_end.py` on the real scheduler and Deployment
controller: a new revision replaces the old one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from inferplan.components.nodes.fake_nodes import fake_nodes
from inferplan.components.pools import SimulatedPool
from inferplan.stackfile.checks.placement import room_for_surge
from tests.patience import PATIENCE_SECONDS
from tests.rehearsal.operator_programs import install
from tests.unit.serving.models import deployment_of, vllm

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.cluster

SPACE = "rollouts"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
OFFERED = 8
REST = pytest.mark.full


@pytest.fixture
def api(cluster):
    client = cluster.api()
    install(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    yield client
    client.close()


@pytest.fixture
def pool(api):
    """A function that adds a pool of nodes with 8 accelerators; they are deleted after the test."""
    names: list[str] = []

    def add(name: str, count: int) -> SimulatedPool:
        fields = {
            "provider": "simulated",
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.48xlarge",
            "nodes": count,
        }
        made = SimulatedPool.model_validate(fields)
        for node in fake_nodes(name, made):
            install(api, node)
            names.append(node["metadata"]["name"])
        return made

    yield add
    for name in names:
        api.request("DELETE", f"/api/v1/nodes/{name}")


@pytest.fixture
def deploy(api):
    """A function that applies a Deployment; it is deleted after the test."""
    names: set[str] = set()

    def apply(
        name: str,
        place: str,
        cards: int,
        replicas: int,
        mode: str,
        revision: int,
        labels: dict[str, str] | None = None,
    ) -> None:
        container = {
            "name": "server",
            "image": f"registry.test/server:{revision}",
            "resources": {"limits": {"nvidia.com/gpu": str(cards)}},
        }
        pod = {
            "containers": [container],
            "nodeSelector": {"inferplan.dev/pool": place, **(labels or {})},
            "tolerations": [{"operator": "Exists"}],
        }
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "strategy": deployment_of(vllm(rollout=mode))["strategy"],
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        }
        install(
            api,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": SPACE},
                "spec": spec,
            },
        )
        names.add(name)

    yield apply
    for name in names:
        api.request("DELETE", f"{DEPLOYMENTS}/{name}")


def await_object(
    api: Any, collection: str, query: dict[str, str], reached: Callable[[dict[str, Any]], Any]
) -> dict[str, Any]:
    with contextlib.closing(
        api.watch(collection, {**query, "timeoutSeconds": str(PATIENCE_SECONDS)})
    ) as watch:
        return next(live for kind, live in watch if kind in ("ADDED", "MODIFIED") and reached(live))


def ended(live: dict[str, Any]) -> bool:
    """True if every pod of a Deployment is new and ready, and no old one is left."""
    status, replicas = live["status"], live["spec"]["replicas"]
    counts = {status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")}
    return status.get("observedGeneration") == live["metadata"]["generation"] and counts == {
        replicas
    }


@pytest.mark.parametrize(
    ("mode", "replicas", "cards", "spare"),
    [
        ("inPlace", 2, 4, 0),
        ("surge", 1, 4, 4),
        *(
            pytest.param(mode, replicas, cards, spare, marks=REST)
            for mode, replicas, cards, spare in [
                ("inPlace", 8, 1, 0), ("inPlace", 8, 2, 0), ("inPlace", 8, 4, 0), ("inPlace", 8, 8, 0), ("inPlace", 3, 2, 2),
                ("surge", 7, 1, 1), ("surge", 8, 1, 8), ("surge", 8, 2, 8), ("surge", 8, 4, 8), ("surge", 8, 8, 8), ("surge", 5, 4, 4),
            ]
        ),
    ],
)  # fmt: skip
def test_a_rollout_that_the_plan_accepts_ends(api, pool, deploy, mode, replicas, cards, spare):
    nodes, rest = divmod(replicas * cards + spare, OFFERED)
    name = f"m-{mode.lower()}-{replicas}-{cards}-{spare}"
    pool(name, nodes + bool(rest))
    if rest:  # another model holds what is neither used nor spare
        deploy(f"{name}-other", name, OFFERED - rest, 1, "inPlace", 1)
        await_object(api, DEPLOYMENTS, {"fieldSelector": f"metadata.name={name}-other"}, ended)
    for revision in (1, 2):
        deploy(name, name, cards, replicas, mode, revision)
        await_object(api, DEPLOYMENTS, {"fieldSelector": f"metadata.name={name}"}, ended)


@pytest.mark.full
def test_surge_that_the_plan_rejects_can_wait_forever(api, pool, deploy):
    # 16 accelerators: 4 of the model, 7 of others, and 5 free ones, of which no node has 4.
    pool("scattered", 2)
    deploy("wide", "scattered", 4, 1, "surge", 1)
    await_object(api, DEPLOYMENTS, {"fieldSelector": "metadata.name=wide"}, ended)
    [pod] = api.request("GET", PODS, query={"labelSelector": "app=wide"})["items"]
    first = pod["spec"]["nodeName"]
    for node, count in {
        first: 2,
        "scattered-1" if first == "scattered-0" else "scattered-0": 5,
    }.items():
        deploy(
            f"others-on-{node}",
            "scattered",
            1,
            count,
            "inPlace",
            1,
            {"kubernetes.io/hostname": node},
        )
        await_object(api, DEPLOYMENTS, {"fieldSelector": f"metadata.name=others-on-{node}"}, ended)
    deploy("wide", "scattered", 4, 1, "surge", 2)

    def refused(live: dict[str, Any]) -> bool:
        conditions = live.get("status", {}).get("conditions", ())
        return any(
            "2 Insufficient nvidia.com/gpu" in each.get("message", "") for each in conditions
        )

    await_object(api, PODS, {"labelSelector": "app=wide"}, refused)
    models = {"wide": vllm(tensorParallelSize=4, rollout="surge"), "others": vllm(replicas=7)}
    target = SimulatedPool.model_validate(
        {
            "provider": "simulated",
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.48xlarge",
            "nodes": 2,
        }
    ).target("p")
    [error] = room_for_surge(models, "wide", target)
    assert "its 5 free accelerators can be on nodes with fewer" in error.message
