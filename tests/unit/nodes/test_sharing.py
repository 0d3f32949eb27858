"""Pools whose device plugin lets containers share an accelerator: what nodes offer, what pods request,
and what cannot be.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.components.nodes.fake_nodes import fake_nodes
from inferplan.components.pools import NodePoolSpec
from tests.unit.serving.models import container_of, vllm
from tests.unit.stackfile.test_checks import (
    CONFIG,
    MODEL,
    lines,  # noqa: F401 - the fixture that judges a stack
    only,
)

POOL = TypeAdapter(NodePoolSpec)
L4 = {"provider": "simulated", "accelerator": "nvidia-l4", "nodes": 1}
RENAMED = {"timeSlicing": {"replicas": 4, "renameByDefault": True}}
SMALL = {**MODEL, "pool": "l4", "weights": {**MODEL["weights"], "size": "2Gi"}}


def pool(**fields: Any) -> NodePoolSpec:
    return POOL.validate_python({**L4, **fields})


@pytest.mark.parametrize(
    ("sharing", "resource", "product", "strategy"),
    [
        ({"timeSlicing": {"replicas": 4}}, "nvidia.com/gpu", "NVIDIA-L4-SHARED", "time-slicing"),
        (RENAMED, "nvidia.com/gpu.shared", "NVIDIA-L4", "time-slicing"),
        ({"mps": {"replicas": 4}}, "nvidia.com/gpu", "NVIDIA-L4-SHARED", "mps"),
    ],
)
def test_nodes_offer_shares_and_pods_request_one(sharing, resource, product, strategy):
    whole, shared = pool(), pool(sharing=sharing)
    devices = whole.capacity.accelerators
    [node] = fake_nodes("p", shared)
    assert node["status"]["allocatable"][resource] == str(4 * devices)
    labels = node["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == product
    assert labels["nvidia.com/gpu.count"] == str(devices)
    assert labels["nvidia.com/gpu.replicas"] == "4"
    assert labels["nvidia.com/gpu.sharing-strategy"] == strategy
    model = vllm(gpuMemoryUtilization=0.2)
    limits = container_of(model, target=shared.target("p"))["resources"]["limits"]
    assert limits[resource] == "1"


def test_mps_divides_the_memory_of_a_device_and_time_slicing_does_not():
    pools = (pool(), *(pool(sharing={way: {"replicas": 2}}) for way in ("timeSlicing", "mps")))
    whole, sliced, part = (each.hardware.memory_bytes for each in pools if each.hardware)
    assert whole == sliced == 2 * part


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sharing": {}}, "Devices are shared by one of timeSlicing and mps."),
        (
            {"sharing": {"mps": {"replicas": 2}, "timeSlicing": {"replicas": 2}}},
            "Devices are shared by one of timeSlicing and mps.",
        ),
        ({"sharing": {"mps": {"replicas": 1}}}, "greater than or equal to 2"),
        (
            {"accelerator": "gaudi-2", "sharing": {"mps": {"replicas": 2}}},
            "sharing divides accelerators of NVIDIA only, and the pool has gaudi-2.",
        ),
        ({"accelerator": None, "sharing": {"mps": {"replicas": 2}}}, "the pool has no accelerator"),
        (
            {"accelerator": "nvidia-h100", "mig": "3g.40gb", "sharing": {"mps": {"replicas": 2}}},
            "mig 3g.40gb divides the accelerators already.",
        ),
    ],
)
def test_what_no_plugin_shares_is_an_error(fields, message):
    with pytest.raises(ValidationError) as rejected:
        pool(**fields)
    assert message in rejected.value.errors()[0]["msg"]


def stack(sharing: dict[str, Any], models: dict[str, Any]) -> dict[str, Any]:
    pools = {**CONFIG["nodePools"], "l4": {**L4, "nodes": 2, "sharing": sharing}}
    consumers = {"chat": {"keys": [1]}, "batch": {"keys": [1]}}
    return {"nodePools": pools, "models": models, "consumers": consumers}


def test_models_of_two_consumers_share_a_device_only_if_the_stack_says_so(lines):  # noqa: F811 - the fixture
    models = {"a": SMALL, "b": {**SMALL, "consumers": ["batch"]}}
    line = only(lines(**stack({"mps": {"replicas": 2}}, models)))
    assert "nodePools.l4.sharing: Models of different consumers may share a device" in line
    assert "a (chat); b (batch)" in line
    assert lines(**stack({"mps": {"replicas": 2}, "betweenConsumers": True}, models)) == ()
    assert lines(**stack({"mps": {"replicas": 2}}, {"a": SMALL, "b": SMALL})) == ()
    adapter = {**SMALL, "loraAdapters": {"x": "x"}, "loraConsumers": {"x": ["batch"]}}
    line = only(lines(**stack({"mps": {"replicas": 2}}, {"a": SMALL, "b": adapter})))
    assert "b (batch, chat)" in line


def test_the_remedy_for_a_server_that_takes_the_memory_of_others_works(lines):  # noqa: F811 - the fixture
    sharing = {"timeSlicing": {"replicas": 4}}
    line = only(lines(**stack(sharing, {"a": SMALL})))
    assert "models.a.gpuMemoryUtilization: The server takes 92% of the memory of a device" in line
    assert "Write gpuMemoryUtilization: 0.23," in line
    assert lines(**stack(sharing, {"a": {**SMALL, "gpuMemoryUtilization": 0.23}})) == ()


def test_an_error_is_at_the_field(lines):  # noqa: F811 - the fixture
    sections = stack({"mps": {"replicas": 2}}, {"a": SMALL})
    sections["nodePools"]["l4"] |= {"accelerator": "amd-mi300x", "provider": "existing"}
    assert [each for each in lines(**sections) if "nodePools.l4.sharing: sharing divides" in each]


def test_shares_do_not_work_together(lines):  # noqa: F811 - the fixture
    sharing = {"mps": {"replicas": 2}}
    line = only(lines(**stack(sharing, {"a": {**SMALL, "tensorParallelSize": 2}})))
    assert "has shares of accelerators, which cannot work together" in line
