"""Pools whose accelerators pods claim through DRA: what nodes publish, what pods claim, and what
cannot be.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.capacity.capacity import pools
from inferplan.capacity.declared import Declared
from inferplan.components.namespace import accelerator_quota
from inferplan.components.nodes.fake_devices import (
    device_classes_of,
    fake_device_classes,
    fake_slices,
)
from inferplan.components.nodes.fake_nodes import fake_nodes
from inferplan.components.nodes.node_pool import declare_pools
from inferplan.components.pools import NodePoolSpec
from inferplan.kube.devices import allocated, published
from tests.recorder import declare
from tests.unit.serving.models import declared, vllm
from tests.unit.stackfile.test_checks import (
    CONFIG,
    MODEL,
    lines,  # noqa: F401 - the fixture that judges a stack
    only,
)

POOL = TypeAdapter(NodePoolSpec)
L4 = {"provider": "simulated", "accelerator": "nvidia-l4", "instanceType": "g6.12xlarge"}
CLASS = "gpu.nvidia.com"


def pool(**fields: Any) -> NodePoolSpec:
    return POOL.validate_python({**L4, "nodes": 2, "devices": "dra", **fields})


def test_nodes_publish_devices_instead_of_a_resource():
    nodes = fake_nodes("p", pool())
    assert not [key for each in nodes for key in each["status"]["allocatable"] if "/" in key]
    slices = fake_slices(pool(), nodes)
    assert [each["spec"]["nodeName"] for each in slices] == ["p-0", "p-1"]
    assert {each["spec"]["driver"] for each in slices} == {CLASS}
    [devices, _] = [each["spec"]["devices"] for each in slices]
    assert [each["name"] for each in devices] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert devices[0]["attributes"]["productName"] == {"string": "NVIDIA L4"}
    assert fake_slices(pool(devices="devicePlugin"), nodes) == []


def test_a_stack_declares_the_devices_of_simulated_nodes_and_their_class_once():
    several = {"a": pool(), "b": pool(), "c": pool(devices="devicePlugin")}
    recording = declare(lambda: declare_pools(several, {}, opts=pulumi.ResourceOptions()))
    [made] = recording.of_type("kubernetes:resource.k8s.io/v1:DeviceClass")
    assert made.inputs["spec"] == fake_device_classes([CLASS])[0]["spec"]
    slices = recording.of_type("kubernetes:resource.k8s.io/v1:ResourceSlice")
    assert [each.name for each in slices] == [
        f"{name}-{CLASS}" for name in ("a-0", "a-1", "b-0", "b-1")
    ]


def test_pods_claim_as_many_devices_as_they_use():
    recording = declared(vllm(tensorParallelSize=2), target=pool().target("p"))
    [template] = recording.of_type("kubernetes:resource.k8s.io/v1:ResourceClaimTemplate")
    name = template.inputs["metadata"]["name"]
    [request] = template.inputs["spec"]["spec"]["devices"]["requests"]
    assert request["name"] == "accelerators"
    assert (request["exactly"]["deviceClassName"], request["exactly"]["count"]) == (CLASS, 2)
    # L4: compute capability 8.9, and nine tenths of its 22,888 MiB.
    assert [each["cel"]["expression"] for each in request["exactly"]["selectors"]] == [
        "device.attributes['gpu.nvidia.com'].cudaComputeCapability.compareTo(semver('8.9.0')) == 0",
        "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('20599Mi')) >= 0",
    ]
    pod = recording.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    assert pod["resourceClaims"] == [{"name": "accelerators", "resourceClaimTemplateName": name}]
    resources = pod["containers"][0]["resources"]
    assert resources["claims"] == [{"name": "accelerators"}]
    assert not [key for side in ("requests", "limits") for key in resources[side] if "." in key]


SLICED = {"accelerator": "nvidia-h100", "instanceType": None, "mig": "3g.40gb", "nodes": 1}


def test_nodes_publish_the_slices_of_their_devices_and_pods_claim_one_of_the_profile():
    sliced = pool(**SLICED)
    [published_slice] = fake_slices(sliced, fake_nodes("h", sliced))
    assert published_slice["spec"]["driver"] == CLASS
    devices = published_slice["spec"]["devices"]
    # p5.48xlarge: 8 H100, 2 slices of 3g.40gb each.
    assert len({each["name"] for each in devices}) == 16
    assert devices[0]["attributes"]["type"] == {"string": "mig"}
    assert devices[0]["attributes"]["profile"] == {"string": "3g.40gb"}
    assert published([published_slice], "mig.nvidia.com") == {"h-0": 16}
    assert published([published_slice], CLASS) == {"h-0": 0}
    assert device_classes_of([sliced, pool()]) == (CLASS, "mig.nvidia.com")
    recording = declared(vllm(), target=sliced.target("h"))
    [template] = recording.of_type("kubernetes:resource.k8s.io/v1:ResourceClaimTemplate")
    [request] = template.inputs["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "mig.nvidia.com"
    assert {
        "cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"}
    } in request["exactly"]["selectors"]
    assert "mig.nvidia.com.deviceclass.resource.k8s.io/devices" in accelerator_quota(
        [sliced.target("h")]
    )


def test_plans_count_claimed_devices_of_a_pool():
    recording = declared(vllm(tensorParallelSize=2, replicas=3), target=pool().target("p"))
    resources = [
        Declared(type=each.type, urn=each.urn, name=each.name, inputs=dict(each.inputs))
        for each in recording
    ]
    counted = pools(resources)["p"]
    assert (counted.requested, counted.resource) == (6, CLASS)


def test_the_namespace_limits_claims():
    assert accelerator_quota([pool().target("p")]) == {
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "8",
        "services.loadbalancers": "0",
        "services.nodeports": "0",
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"accelerator": None, "instanceType": None}, "the pool has no accelerator to claim."),
        (
            {"accelerator": "gaudi-2", "instanceType": None},
            "supports dra only for NVIDIA, and the pool has gaudi-2. Write devices: devicePlugin.",
        ),
        (
            {"accelerator": "nvidia-h100", "instanceType": None, "mig": "3g.80gb"},
            "the slice 3g.80gb is not a profile of nvidia-h100",
        ),
        ({"sharing": {"mps": {"replicas": 2}}}, "sharing divides them. Remove sharing,"),
    ],
)
def test_what_cannot_be_claimed_is_an_error(fields, message):
    with pytest.raises(ValidationError) as rejected:
        pool(**fields)
    [error] = rejected.value.errors()
    assert message in error["msg"]


def test_devices_are_counted_by_node_and_driver():
    slices = fake_slices(pool(), fake_nodes("p", pool()))
    other = {"spec": {"driver": "other", "nodeName": "p-0", "devices": [{"name": "x"}]}}
    assert published([*slices, other], CLASS) == {"p-0": 4, "p-1": 4}
    result = {"driver": CLASS, "pool": "p-0", "device": "gpu-0"}
    foreign = {**result, "driver": "other"}
    claims = [
        {"status": {"allocation": {"devices": {"results": [result, result, foreign]}}}},
        {"status": {}},
    ]
    assert allocated(claims, CLASS) == {"p-0": 2}


def stack(**more: Any) -> dict[str, Any]:
    pools = {**CONFIG["nodePools"], "l4": {**L4, "nodes": 2, "devices": "dra"}}
    model = {**MODEL, "pool": "l4", **more.pop("model", {})}
    return {"nodePools": pools, "models": {"a": model}, **more}


def test_a_stack_with_claims_is_valid_and_says_how_many_devices_there_are(lines):  # noqa: F811 - the fixture
    assert lines(**stack(model={"replicas": 8})) == ()
    line = only(lines(**stack(model={"replicas": 9})))
    assert "9 x 1 = 9 accelerators do not fit pool 'l4', which has 8" in line


def test_kueue_counts_no_claims(lines):  # noqa: F811 - the fixture
    line = only(lines(**stack(model={"queue": "q"}, queues={"q": {"pools": {"l4": {}}}})))
    assert "queues.q.pools.l4: Pool 'l4' has devices: dra" in line
