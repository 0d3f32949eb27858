"""Pools of any current CPU type of EC2, and Graviton nodes, which take only images that exist for
arm64.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.components.platforms.aws import tables
from inferplan.components.platforms.aws.aws_api import aws_api
from inferplan.components.pools import NodePoolSpec
from inferplan.hardware.machines import CPU_FILE, allocatable, cpu_rows, machine
from inferplan.hardware.prices import price_list
from tests.unit.aws.rig import BUCKET, CREATED, L40S, declared, model, settings

POOL: TypeAdapter[Any] = TypeAdapter(NodePoolSpec)
GRAVITON = {"provider": "eks", "instanceTypes": ["m8g.xlarge"], "size": {"min": 2, "max": 3}}
PREHEATED = model(preheat={"into": "shared"})
STORAGE = {"weights": BUCKET, "shared": {"kind": "efs"}}


def errors(**parts: Any) -> dict[str, str]:
    spec = settings(cluster=CREATED, **parts)
    return {".".join(map(str, each.path)): each.message for each in spec.cluster.errors(spec)}


def test_every_type_of_the_table_is_one_of_ec2_with_a_price_and_room_for_pods():
    assert len(cpu_rows()) > 800
    assert cpu_rows().keys() <= aws_api().instance_types
    for name in cpu_rows():
        offered = allocatable(machine(name))
        assert offered.cpu_millicores > 0
        assert offered.memory_bytes > 2**30
        assert price_list().machines[name].usd_per_hour


@pytest.mark.parametrize(
    ("name", "millicores", "mebibytes", "pods"),
    [
        ("m8i.xlarge", 3920, 13502, 118),
        ("c6g.2xlarge", 7910, 14103, 58),
        ("r8g.24xlarge", 95690, 718928, 737),
    ],
)
def test_a_type_offers_pods_what_karpenter_expects_of_it(name, millicores, mebibytes, pods):
    """website/content/en/preview/reference/instance-types.md of aws/karpenter-provider-aws, commit
    1d927085, 2026-08-21.
    """
    offered = allocatable(machine(name))
    assert (offered.cpu_millicores, offered.memory_bytes // 2**20, machine(name).max_pods) == (
        millicores,
        mebibytes,
        pods,
    )


@pytest.mark.full
def test_the_table_is_that_of_the_installed_moto():
    assert CPU_FILE.read_text() == tables.cpu_types(), (
        "run: python -m inferplan.components.platforms.aws.tables"
    )


def test_graviton_nodes_boot_the_arm_image_and_run_the_gateway_and_preheats():
    parts = {
        "nodePools": {"l40s": L40S, "system": {**GRAVITON, "nodes": "nodeGroup"}},
        "storage": STORAGE,
        "models": {"llama": PREHEATED},
    }
    group = (
        declared(cluster=CREATED, **parts)
        .one("aws:eks/nodeGroup:NodeGroup", "system-on-demand")
        .inputs
    )
    assert (group["amiType"], group["instanceTypes"]) == ("AL2023_ARM_64_STANDARD", ["m8g.xlarge"])
    assert errors(**parts) == {}


def test_an_image_that_may_not_exist_for_arm_is_rejected_where_it_can_run_there():
    other = model(preheat={"into": "shared", "image": "registry.acme.example/fetch:1.0"})
    pools = {"l40s": L40S, "system": GRAVITON}
    found = errors(nodePools=pools, storage=STORAGE, models={"llama": other})
    assert "nothing says that the image exists for them" in found["models.llama.preheat.image"]
    taints = [{"key": "team", "value": "batch", "effect": "NoSchedule"}]
    apart = {
        **pools,
        "system": {"provider": "eks", "size": {"min": 2, "max": 3}},
        "arm": {**GRAVITON, "taints": taints},
    }
    assert errors(nodePools=apart, storage=STORAGE, models={"llama": other}) == {}


def test_a_model_on_graviton_is_rejected():
    found = errors(
        nodePools={"l40s": L40S, "system": GRAVITON},
        storage={"weights": BUCKET},
        models={"llama": model(pool="system")},
    )
    assert (
        "has arm64 processors (m8g.xlarge), and no engine image is known"
        in found["models.llama.pool"]
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"instanceTypes": ["m8g.xlarge", "m7i.xlarge"]},
            "the instance types differ in architecture (m8g.xlarge arm64, m7i.xlarge x86_64)",
        ),
        ({"amiType": "AL2023_x86_64_STANDARD"}, "Use one of AL2023_ARM_64_STANDARD"),
        (
            {"instanceTypes": ["m7i.xlarge"], "amiType": "AL2023_ARM_64_STANDARD"},
            "Use one of AL2023_x86_64_STANDARD",
        ),
        ({"instanceTypes": ["m9z.xlarge"]}, "'m9z.xlarge' is not a known instance type"),
        (
            {"instanceTypes": ["m6i.largest"]},
            (
                "'m6i.largest' is not a known instance type. Did you mean 'm6i.large'? Allowed:"
                " m6i.large, m6i.xlarge"
            ),
        ),
    ],
)
def test_a_pool_boots_one_image_for_its_processors(fields, said):
    with pytest.raises(ValidationError) as caught:
        POOL.validate_python({**GRAVITON, **fields})
    assert said in str(caught.value)
