"""Pools whose accelerators pods claim through DRA: what nodes publish, what pods claim, and what
cannot be.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.capacity.capacity import pools as capacity_pools
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
from inferplan.components.serving.claims import claimed
from inferplan.kube.devices import allocated, published
from tests.recorder import declare
from tests.unit.aws.rig import planned
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


def test_claims_on_amd_select_whole_devices_of_a_class_that_has_partitions_too():
    amd = pool(accelerator="amd-mi300x", instanceType=None, nodes=1)
    [published_slice] = fake_slices(amd, fake_nodes("m", amd))
    assert published_slice["spec"]["driver"] == "gpu.amd.com"
    assert published([published_slice], "gpu.amd.com") == {"m-0": 8}
    [made] = fake_device_classes(["gpu.amd.com"])
    [selector] = made["spec"]["selectors"]
    assert selector["cel"]["expression"] == "device.driver == 'gpu.amd.com'"
    claim = claimed(amd.target("m"), 8)
    assert claim is not None
    kind, memory = claim["devices"]["requests"][0]["exactly"]["selectors"]
    assert kind["cel"]["expression"] == "device.attributes['gpu.amd.com'].type == 'amdgpu'"
    assert "device.capacity['gpu.amd.com'].memory.compareTo" in memory["cel"]["expression"]


SHARED = {"sharing": {"mps": {"replicas": 4}}, "nodes": 1}


def test_models_share_a_device_by_one_claim():
    """Three replicas and one fill a device, and two more models the next one."""
    pools = {"l4": L4 | {"devices": "dra"} | SHARED, "system": CONFIG["nodePools"]["system"]}
    small = {**MODEL, "pool": "l4", "weights": {**MODEL["weights"], "size": "1Gi"}}
    models = {name: {**small, "replicas": count} for name, count in (("a", 3), ("b", 2), ("c", 1))}
    parts = {name: each for name, each in CONFIG.items() if name != "apiKeySeed"}
    recording = planned(**{**parts, "nodePools": pools, "models": models})
    assert not recording.of_type("kubernetes:resource.k8s.io/v1:ResourceClaimTemplate")
    claims = recording.of_type("kubernetes:resource.k8s.io/v1:ResourceClaim")
    first, second = [each.name for each in claims]
    assert (first[:12], second[:12]) == ("l4-shared-0-", "l4-shared-1-")
    [config] = claims[0].inputs["spec"]["devices"]["config"]
    # A quarter of the threads, and of the 22,888 MiB of an L4.
    assert config["opaque"] == {
        "driver": CLASS,
        "parameters": {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "GpuConfig",
            "sharing": {
                "strategy": "MPS",
                "mpsConfig": {
                    "defaultActiveThreadPercentage": 25,
                    "defaultPinnedDeviceMemoryLimit": "5722Mi",
                },
            },
        },
    }
    used = {
        each.name: each.inputs["spec"]["template"]["spec"]["resourceClaims"]
        for each in recording.of_type("kubernetes:apps/v1:Deployment")
        if each.name in models
    }
    assert used == {
        name: [{"name": "accelerators", "resourceClaimName": claim}]
        for name, claim in (("a", first), ("b", second), ("c", first))
    }
    [quota] = recording.of_type("kubernetes:core/v1:ResourceQuota")
    assert quota.inputs["spec"]["hard"][f"{CLASS}.deviceclass.resource.k8s.io/devices"] == "4"
    resources = [
        Declared(type=each.type, urn=each.urn, name=each.name, inputs=dict(each.inputs))
        for each in recording
    ]
    assert capacity_pools(resources)["l4"].requested == 6


def test_time_slicing_leaves_the_memory_whole():
    target = pool(sharing={"timeSlicing": {"replicas": 4}}).target("p")
    claim = claimed(target, 1)
    assert claim is not None
    [config] = claim["devices"]["config"]
    assert config["opaque"]["parameters"]["sharing"] == {"strategy": "TimeSlicing"}


def test_nodes_publish_whole_devices_for_shares():
    shared = pool(**SHARED)
    [published_slice] = fake_slices(shared, fake_nodes("p", shared))
    assert published([published_slice], CLASS) == {"p-0": 4}
    [device, *_] = published_slice["spec"]["devices"]
    assert device["capacity"] == {"memory": {"value": "22888Mi"}}
    assert "nvidia.com/gpu.replicas" not in fake_nodes("p", shared)[0]["metadata"]["labels"]


def test_plans_count_claimed_devices_of_a_pool():
    recording = declared(vllm(tensorParallelSize=2, replicas=3), target=pool().target("p"))
    resources = [
        Declared(type=each.type, urn=each.urn, name=each.name, inputs=dict(each.inputs))
        for each in recording
    ]
    counted = capacity_pools(resources)["p"]
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
            "supports dra only for NVIDIA and AMD, and the pool has gaudi-2. Write devices: devicePlugin.",
        ),
        (
            {"accelerator": "nvidia-h100", "instanceType": None, "mig": "3g.80gb"},
            "the slice 3g.80gb is not a profile of nvidia-h100",
        ),
        (
            {"sharing": {"mps": {"replicas": 2, "renameByDefault": True}}},
            "renameByDefault names a resource of the device plugin. Remove renameByDefault.",
        ),
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


def test_pods_that_find_no_room_on_a_shared_device_are_an_error(lines):  # noqa: F811 - the fixture
    sections = stack(model={"replicas": 3, "weights": {**MODEL["weights"], "size": "1Gi"}})
    sections["nodePools"]["l4"] |= SHARED
    assert lines(**sections) == ()
    [model] = sections["models"].values()
    line = only(lines(**sections | {"models": {"a": {**model, "replicas": 5}}}))
    assert "models.a.replicas: 5 pods would share one device by a claim, but pool 'l4'" in line
    line = only(lines(**sections | {"models": {"a": {**model, "replicas": 4, "rollout": "surge"}}}))
    assert "models.a.replicas: 5 pods would share one device" in line
    # 15 shares of 16, but each device has room for one model of three.
    line = only(lines(**sections | {"models": dict.fromkeys("abcde", model)}))
    assert "no device of pool 'l4' has 3 free shares left by the models above it" in line
    assert "models.e.pool: " in line


def test_kueue_counts_no_claims(lines):  # noqa: F811 - the fixture
    line = only(lines(**stack(model={"queue": "q"}, queues={"q": {"pools": {"l4": {}}}})))
    assert "queues.q.pools.l4: Pool 'l4' has devices: dra" in line
