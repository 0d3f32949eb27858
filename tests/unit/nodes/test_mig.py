"""Pools of divided cards: how many slices there are, what pods ask for, and what cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.components.nodes.fake_nodes import fake_nodes
from inferplan.components.pools import NodePoolSpec
from inferplan.documents.errors import InvalidStack
from inferplan.hardware.accelerators import accelerators, lookup
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.unit.serving.models import container_of, vllm

POOL = TypeAdapter(NodePoolSpec)
H100 = {"provider": "simulated", "accelerator": "nvidia-h100", "nodes": 1}


def pool(**fields: Any) -> NodePoolSpec:
    return POOL.validate_python({**H100, **fields})


@pytest.mark.parametrize(
    ("card", "counts"),
    [
        (
            "nvidia-a100-40gb",
            {"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
        ),
        (
            "nvidia-h100",
            {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
        ),
    ],
)
def test_a_card_holds_as_many_slices_as_nvidias_guide_says(card, counts):
    assert {profile: lookup(card).slices(profile) for profile in lookup(card).mig} == counts


def test_no_division_of_a_card_of_the_table_is_more_than_the_card():
    for card in accelerators().values():
        for profile in card.mig:
            count = card.slices(profile)
            assert 1 <= count <= 7
            assert (
                count * int(profile.partition(".")[2].removesuffix("gb")) * 1.0
                <= card.memory_bytes / 2**30 * 1.08
            )


def test_pods_ask_for_a_slice_by_its_own_name():
    target = pool(mig="3g.40gb").target("p")
    assert target.capacity.accelerators == 16
    limits = container_of(vllm(), target=target)["resources"]["limits"]
    assert limits["nvidia.com/mig-3g.40gb"] == "1"
    assert "nvidia.com/gpu" not in limits


def test_a_pretend_node_offers_slices_and_is_labelled_like_a_divided_one():
    [node] = fake_nodes("p", pool(mig="1g.10gb"))
    assert (
        node["status"]["allocatable"]["nvidia.com/mig-1g.10gb"]
        == node["status"]["capacity"]["nvidia.com/mig-1g.10gb"]
        == "56"
    )
    assert "nvidia.com/gpu" not in node["status"]["allocatable"]
    labels = node["metadata"]["labels"]
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert labels["nvidia.com/mig-1g.10gb.count"] == "56"
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.memory"]) == ("8", "81920")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"accelerator": "nvidia-a100-40gb", "mig": "7g.80gb"},
            "the slice 7g.80gb is larger than nvidia-a100-40gb, which is 7g.40gb as a whole",
        ),
        ({"mig": "5g.50gb"}, "the slice 5g.50gb is not a profile of nvidia-h100"),
        ({"accelerator": "nvidia-l40s", "mig": "1g.10gb"}, "nvidia-l40s cannot be divided"),
        ({"accelerator": "gaudi-2", "mig": "1g.10gb"}, "gaudi-2 cannot be divided"),
        ({"accelerator": None, "mig": "1g.10gb"}, "no accelerator to divide"),
        ({"mig": "half"}, "should match pattern"),
    ],
)
def test_a_slice_that_the_card_does_not_have_is_refused(fields, said):
    with pytest.raises(ValidationError) as refused:
        pool(**fields)
    assert said in refused.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            {"tensorParallelSize": 2, "weights": {"store": "s", "path": "m"}},
            "MIG slices, which cannot work together",
        ),
        (
            {"weights": {"store": "s", "path": "m", "size": "60Gi"}},
            "60Gi of weights do not fit into 1 x 40Gi",
        ),
    ],
)
def test_a_model_larger_than_a_slice_is_refused(tmp_path, model, said):
    config = {
        "cluster": {"provider": "simulated"},
        "nodePools": {
            "h100": {**H100, "mig": "3g.40gb"},
            "system": {"provider": "simulated", "nodes": 1},
        },
        "storage": {
            "s": {"kind": "nfs", "server": "nfs.internal", "path": "/models", "capacity": "1Ti"}
        },
        "models": {"chat": {"engine": "vllm", "pool": "h100", **model}},
    }
    path = tmp_path / "Pulumi.test.yaml"
    path.write_text(
        json.dumps({"config": {f"inferplan:{key}": value for key, value in config.items()}})
    )
    with pytest.raises(InvalidStack) as refused:
        validate(read_stack(path, shown_path="s.yaml"))
    assert said in "\n".join(refused.value.lines)
