"""Budgets of tokens, shared accelerators and claims for devices under Pulumi's own engine."""

from __future__ import annotations

import pytest

from tests.engine.requirement import needs_pulumi
from tests.scenarios.transitions import BASE, edited, weights

pytestmark = [pytest.mark.engine, pytest.mark.cluster, pytest.mark.full, needs_pulumi]

L4 = {
    "provider": "simulated",
    "accelerator": "nvidia-l4",
    "instanceType": "g6.12xlarge",
    "nodes": 1,
}
HALVES = {"timeSlicing": {"replicas": 2}}
SMALL = {
    "engine": "vllm",
    "weights": {**weights("small"), "size": "2Gi"},
    "preheat": {"into": "share"},
    "gpuMemoryUtilization": 0.4,
    "usageLog": True,
    "consumers": ["desk"],
}
STACK = edited(
    BASE,
    (
        ("put", "nodePools.shared", {**L4, "sharing": {"timeSlicing": {"replicas": 2}}}),
        ("put", "nodePools.claimed", {**L4, "devices": "dra"}),
        ("put", "nodePools.divided", {**L4, "devices": "dra", "sharing": HALVES}),
        ("put", "models.gamma", {**SMALL, "pool": "shared", "replicas": 5}),
        ("put", "models.delta", {**SMALL, "pool": "claimed", "tensorParallelSize": 2}),
        ("put", "models.epsilon", {**SMALL, "pool": "divided"}),
        ("put", "models.zeta", {**SMALL, "pool": "divided"}),
        ("put", "models.alpha.usageLog", True),
        ("put", "models.beta.usageLog", True),
        ("put", "consumers.desk.limits", {"tokensPerDay": 2_000_000}),
    ),
)
CHANGED = edited(
    STACK,
    (
        ("put", "models.delta.tensorParallelSize", 4),
        ("put", "consumers.desk.limits.tokensPerDay", 3_000_000),
    ),
)


def test_budgets_shares_and_claims_converge_and_are_quiet(shared_engine, monkeypatch):
    monkeypatch.setenv("INFERPLAN_STATE_DIR", shared_engine.environment["INFERPLAN_STATE_DIR"])
    for config in (STACK, CHANGED):
        ended = shared_engine.update(config)
        assert ended.ok, ended.text
        assert shared_engine.quiet(config) == ""
    kinds = [kind for kind, _, _ in shared_engine.owned()]
    assert kinds.count("ResourceClaimTemplate") == 1, "the template of two devices is gone"
    assert kinds.count("ResourceClaim") == 1, "the claim of the device that two models share"
    assert kinds.count("DeviceClass") == 1
    api = shared_engine.cluster.api()
    claims = api.get("/apis/resource.k8s.io/v1/resourceclaims")["items"]
    devices = {
        len(each["status"]["reservedFor"]): each["status"]["allocation"]["devices"]["results"]
        for each in claims
    }
    assert {each["driver"] for results in devices.values() for each in results} == {
        "gpu.nvidia.com"
    }
    # One pod has four devices of its own, and two pods share one.
    assert {pods: len(results) for pods, results in devices.items()} == {1: 4, 2: 1}
