"""A stack whose models cannot be scheduled on the nodes that it really gets is rejected with the
numbers and a line to paste.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate

SHARED = {"provider": "eks", "name": "research", "region": "us-west-2"}
FRESH = {
    **SHARED,
    "autoMode": False,
    "create": {
        "kubernetesVersion": "1.35",
        "zones": ["us-west-2a", "us-west-2b"],
        "publicAccessCidrs": ["198.51.100.0/24"],
        "admins": ["arn:aws:iam::222233334444:role/ops"],
    },
}
RACK = {"provider": "existing", "context": "rack-7"}
SYSTEM = {"provider": "eks", "instanceTypes": ["m7i.2xlarge"], "size": {"min": 2, "max": 4}}
NODES = {"provider": "existing", "accelerator": "nvidia-l40s", "instanceType": "g6e.12xlarge"}
# Four accelerators on each node.
LARGE = {"provider": "eks", "accelerator": "nvidia-l40s", "instanceTypes": ["g6e.12xlarge"]}
# One accelerator on each node.
SMALL = {"provider": "eks", "accelerator": "nvidia-l4", "instanceTypes": ["g6.2xlarge"]}
BLOCK = {
    "provider": "eks",
    "accelerator": "nvidia-h100",
    "instanceTypes": ["p5.48xlarge"],
    "capacityTypes": ["CAPACITY_BLOCK"],
    "capacityReservation": {"id": "cr-0123456789abcdef0", "zone": "us-west-2a"},
}


def model(pool: str, *, cards: int = 1, **fields: Any) -> dict[str, Any]:
    weights = {"store": "bucket", "path": "some/model", "revision": "v3", "size": "12Gi"}
    return {
        "engine": "vllm",
        "weights": weights,
        "pool": pool,
        "tensorParallelSize": cards,
        **fields,
    }


@pytest.fixture
def lines(tmp_path: Path):
    def judge(
        cluster: dict[str, Any], pools: dict[str, Any], models: dict[str, Any], **sections: Any
    ) -> tuple[str, ...]:
        config = {
            "cluster": cluster,
            "nodePools": pools,
            "storage": {"bucket": {"kind": "s3", "bucket": "some-weights"}},
            "models": models,
            "apiKeySeed": {"secure": "v1:bm9uY2U=:Y2lwaGVy"},
            **sections,
        }
        path = tmp_path / "Pulumi.lab.yaml"
        path.write_text(
            yaml.safe_dump(
                {"config": {f"inferplan:{key}": value for key, value in config.items()}},
                sort_keys=False,
            )
        )
        try:
            validate(read_stack(path, shown_path="lab.yaml"))
        except InvalidStack as error:
            return error.lines
        return ()

    return judge


SOUND = {
    "an autoscaler of the cluster": ({**SHARED, "autoscaler": "existing"}, {"p": {**SMALL, "size": {"max": 1}}}, {"m": model("p")}),
    "an autoscaler that the stack installs": ({**SHARED, "autoscaler": "install"}, {"p": {**SMALL, "size": {"max": 3}}}, {"m": model("p", replicas=3)}),
    "the default of a created cluster": (FRESH, {"system": SYSTEM, "p": {**SMALL, "size": {"max": 1}}}, {"m": model("p")}),
    "enough nodes from the start": (SHARED, {"p": {**LARGE, "size": {"min": 2, "max": 2}}}, {"m": model("p", cards=4, replicas=2)}),
    "models that share a node": (SHARED, {"p": {**LARGE, "size": {"min": 1, "max": 1}}}, {"a": model("p", cards=2), "b": model("p", replicas=2)}),
    "no pods at all": (SHARED, {"p": {**SMALL, "size": {"max": 1}}}, {"m": model("p", replicas=0)}),
    "a pool that no model uses": (SHARED, {"p": {**SMALL, "size": {"max": 1}}, "q": {**LARGE, "size": {"min": 1, "max": 1}}}, {"m": model("q")}),
    "existing nodes": (RACK, {"p": {**NODES, "nodes": 2}}, {"m": model("p", cards=4, replicas=2)}),
}  # fmt: skip

REJECTED = {
    "a pool that scales from zero, and nothing scales it": (
        SHARED,
        {"p": {**SMALL, "size": {"max": 1}}},
        {"m": model("p")},
        "nodePools.p.size",
        ["has 0 nodes on the first day", "nothing adds nodes", "models need 1", "autoscaler: existing", "autoscaler: install", "size: {min: 1, max: 1}"],
    ),
    "a created cluster that switches its autoscaler off": (
        {**FRESH, "autoscaler": "none"},
        {"system": SYSTEM, "p": {**SMALL, "size": {"min": 1, "max": 5}}},
        {"m": model("p", replicas=3)},
        "nodePools.p.size",
        ["has 1 node on the first day", "models need 3", "autoscaler: install", "size: {min: 3, max: 5}"],
    ),
    "replicas of several pods": (
        SHARED,
        {"p": {**LARGE, "size": {"min": 3, "max": 4}}},
        {"m": model("p", cards=8, accelerators=8, nnodes=2, replicas=2)},
        "nodePools.p.size",
        ["has 3 nodes", "models need 4", "size: {min: 4, max: 4}"],
    ),
    "a capacity block, which has no minimum": (
        {**SHARED, "subnets": {"us-west-2a": "subnet-0123abcd"}},
        {"p": {**BLOCK, "size": {"max": 2}}},
        {"m": model("p", cards=8)},
        "nodePools.p.size",
        ["has 0 nodes", "size: {desired: 1, max: 2}"],
    ),
    "models that cannot share a node": (
        RACK,
        {"p": {**NODES, "nodes": 1}},
        {"m": model("p"), "n": model("p", affinity={"apartFrom": ["m"]})},
        "nodePools.p.nodes",
        ["has 1 node", "models need 2", "nodes: 2"],
    ),
    "memory that one node has only once": (
        SHARED,
        {"p": {**LARGE, "size": {"min": 1, "max": 3}}},
        {"m": model("p", replicas=3, resources={"memory": "200Gi", "cpu": "2"})},
        "nodePools.p.size",
        ["has 1 node", "models need 3", "size: {min: 3, max: 3}"],
    ),
    "a maximum that an autoscaler cannot exceed": (
        {**SHARED, "autoscaler": "existing"},
        {"p": {**LARGE, "size": {"max": 2}}},
        {"m": model("p", replicas=3, resources={"memory": "200Gi", "cpu": "2"})},
        "nodePools.p.size",
        ["grows to 2 nodes", "models need 3", "size: {max: 3}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SOUND, ids=str)
def test_models_that_can_be_scheduled_are_accepted(lines, case):
    assert lines(*SOUND[case]) == ()


@pytest.mark.parametrize("case", REJECTED, ids=str)
def test_models_that_cannot_be_scheduled_are_rejected_at_the_field_with_numbers_and_remedies(
    lines, case
):
    cluster, pools, models, path, fragments = REJECTED[case]
    [line] = lines(cluster, pools, models)
    assert f" {path}: " in line
    assert line.startswith("lab.yaml:")
    assert [each for each in fragments if each not in line] == []


def test_each_remedy_makes_the_stack_valid(lines):
    pools, models = {"p": {**SMALL, "size": {"max": 2}}}, {"m": model("p", replicas=2)}
    assert len(lines(SHARED, pools, models)) == 1
    assert lines({**SHARED, "autoscaler": "existing"}, pools, models) == ()
    assert lines({**SHARED, "autoscaler": "install"}, pools, models) == ()
    assert lines(SHARED, {"p": {**SMALL, "size": {"min": 2, "max": 2}}}, models) == ()


def test_pods_without_accelerators_need_nodes_of_a_created_cluster_too(lines):
    small = {"provider": "eks", "instanceTypes": ["m7i.xlarge"], "size": {"min": 1, "max": 3}}
    pools, models = {"tiny": small, "p": {**SMALL, "size": {"min": 1, "max": 1}}}, {"m": model("p")}
    gateway = {"host": "llm.lab.example", "tls": {"secretName": "t"}, "replicas": 30}
    [line] = lines({**FRESH, "autoscaler": "none"}, pools, models, gateway=gateway)
    assert " nodePools.tiny.size: " in line
    assert "has 1 node" in line
    assert "without an accelerator" in line
    assert "size: {min: 3, max: 3}" in line
    assert lines(FRESH, pools, models, gateway=gateway) == ()


def test_a_capacity_error_is_not_repeated_for_a_model_that_fits_no_node(lines):
    [line] = lines(SHARED, {"p": {**SMALL, "size": {"max": 1}}}, {"m": model("p", cards=2)})
    assert "models.m.tensorParallelSize" in line
