"""Autoscalers in the policy pack: another scaler, or a scaler in the place of a number, hides
nothing.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Settings
from tests.policies.cases import base, recording_of

CAPACITY, SPREAD, BUDGET = (
    "stack-require-pool-capacity",
    "pod-require-spread",
    "stack-require-disruption-budget",
)
RIVALS = "stack-disallow-replicas-of-autoscaled"


def scaler(kind: str, name: str, least: int, most: int) -> dict[str, Any]:
    fields = (
        ("minReplicas", "maxReplicas")
        if kind == "HorizontalPodAutoscaler"
        else ("minReplicaCount", "maxReplicaCount")
    )
    group = "autoscaling/v2" if kind == "HorizontalPodAutoscaler" else "keda.sh/v1alpha1"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    metadata = {
        "name": name,
        "namespace": "inference",
        "labels": {"app.kubernetes.io/managed-by": "pulumi"},
    }
    spec = {"scaleTargetRef": target, **dict(zip(fields, (least, most), strict=True))}
    return {
        "type": f"kubernetes:{group}:{kind}",
        "name": name,
        "inputs": {"metadata": metadata, "spec": spec},
    }


def violated(*scalers: dict[str, Any]) -> set[str]:
    """The rules that the base stack violates if `scalers` decide the replicas of Deployment chat,
    which has no budget and no spread.
    """
    resources = [
        copy.deepcopy(each)
        for each in base()
        if each["type"] != "kubernetes:policy/v1:PodDisruptionBudget"
    ]
    [chat] = [
        each
        for each in resources
        if each["type"] == "kubernetes:apps/v1:Deployment" and each["name"] == "chat"
    ]
    del chat["inputs"]["spec"]["replicas"]
    del chat["inputs"]["spec"]["template"]["spec"]["topologySpreadConstraints"]
    report = check_stack(
        stack_of(recording_of([*resources, *scalers])), Settings(today="2026-11-22")
    )
    return {
        each.rule.id
        for each in report.violations
        if "chat" in each.resource or each.rule.id == RIVALS
    } & {
        CAPACITY,
        SPREAD,
        BUDGET,
        RIVALS,
    }


@pytest.mark.parametrize("kind", ["HorizontalPodAutoscaler", "ScaledObject"])
def test_the_largest_minimum_and_maximum_count(kind):
    assert violated(scaler(kind, "chat", 1, 4)) == set()
    assert violated(scaler(kind, "chat", 1, 500)) == {CAPACITY}
    assert violated(scaler(kind, "chat", 3, 4)) == {SPREAD, BUDGET}
    assert violated(scaler(kind, "a", 1, 4), scaler(kind, "chat", 3, 4)) == {SPREAD, BUDGET, RIVALS}


def test_two_scalers_of_one_workload_are_rivals_whatever_their_kinds():
    assert RIVALS in violated(
        scaler("HorizontalPodAutoscaler", "chat", 1, 2), scaler("ScaledObject", "chat", 1, 2)
    )
