"""Capacity and cost of models whose number of replicas a scaler changes."""

from __future__ import annotations

import pytest

from inferplan.capacity.capacity import pools
from inferplan.capacity.cost import monthly_cost
from inferplan.review.rendering.markdown import render
from inferplan.review.report import make_report
from tests.review_streams import preview, step
from tests.unit.review.test_figures import DEPLOYMENT, GROUP, group, model, node, resource

SCALED = "kubernetes:keda.sh/v1alpha1:ScaledObject"
HPA = "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
SCALERS = [
    (SCALED, {"spec": {"scaleTargetRef": TARGET, "minReplicaCount": 2, "maxReplicaCount": 6}}),
    (HPA, {"spec": {"scaleTargetRef": TARGET, "minReplicas": 2, "maxReplicas": 6}}),
]


def chat(replicas=2):
    return {"metadata": {"name": "chat"}, **model(replicas)}


@pytest.mark.parametrize(("type_", "scaler"), SCALERS)
def test_a_pool_is_asked_for_a_range_and_short_by_its_maximum(type_, scaler):
    [pool] = pools(
        [
            resource("kubernetes:core/v1:Node", "n", **node()),
            resource(DEPLOYMENT, **chat()),
            resource(type_, **scaler),
        ]
    ).values()
    assert (pool.requested, pool.highest, pool.demand) == (2, 6, "2 to 6")
    steps = [
        step("create", "kubernetes:core/v1:Node", name="n", new=node()),
        step("create", DEPLOYMENT, name="chat", new=chat()),
        step("create", type_, name="chat", new=scaler),
    ]
    report = render(make_report([preview(*steps)]))
    assert "2 to 6 ⚠️ requests exceed capacity" in report
    assert f"{pool.memory_requested_gib:.0f} to {pool.memory_requested_gib * 3:.0f} of" in report


def test_groups_of_pods_scale_as_a_whole():
    template = model()["spec"]["template"]
    group_set = {
        "metadata": {"name": "chat-group"},
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": 2,
                "leaderTemplate": template,
                "workerTemplate": template,
            },
        },
    }
    target = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "name": "chat-group",
    }
    scaler = {"spec": {"scaleTargetRef": target, "minReplicaCount": 1, "maxReplicaCount": 3}}
    workload = resource("kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet", **group_set)
    [pool] = pools([workload, resource(SCALED, **scaler)]).values()
    assert (pool.requested, pool.highest) == (2, 6)


def test_the_usual_cost_is_that_of_the_minimum_and_the_budget_sees_the_maximum():
    least = {"spec": {"scaleTargetRef": TARGET, "minReplicaCount": 1, "maxReplicaCount": 6}}
    stack = [
        resource(GROUP, **group(least=0, wanted=0)),
        resource(DEPLOYMENT, **chat(replicas=1)),
        resource(SCALED, **least),
    ]
    cost = monthly_cost(stack)
    assert round(cost.most / cost.usual, 3) == 6
    assert round(cost.least / cost.usual, 3) == 1


def test_a_model_that_scales_to_zero_can_cost_nothing():
    scaler = {"spec": {"scaleTargetRef": TARGET, "minReplicaCount": 0, "maxReplicaCount": 6}}
    cost = monthly_cost(
        [
            resource(GROUP, **group(least=0, wanted=0)),
            resource(DEPLOYMENT, **chat(replicas=0)),
            resource(SCALED, **scaler),
        ]
    )
    assert cost.least == 0
