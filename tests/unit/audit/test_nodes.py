from __future__ import annotations

import json

import pytest

from inferplan.audit.fleet import load_objects, node_objects, read_fleet
from inferplan.audit.manifest import InputError
from inferplan.audit.recorded import record
from inferplan.commands.nodes.recorded_nodes import record_nodes
from inferplan.errors import OperationError
from inferplan.workspace.kubectl import Kubectl

TAINTED = {"metadata": {"name": "a"}, "spec": {"taints": [{"key": "x"}]}}


def node(name: str, **fields):
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "team": "jane.doe@example.com",
        "accelerator": "h100",
    }
    taints = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "jane-doe", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ]
    status = {
        "allocatable": {"cpu": "191", "nvidia.com/gpu": "8", "memory": "2Ti"},
        "addresses": [{"type": "InternalIP", "address": "10.0.3.7"}],
        "nodeInfo": {"machineID": "ec2a3b", "systemUUID": "ec2a3b"},
    }
    metadata = {"name": name, "labels": labels, "annotations": {"note": "call jane"}, "uid": "4f0c"}
    return {
        "metadata": metadata,
        "spec": {"taints": taints, "providerID": "aws:///us-east-1a/i-0abc"},
        "status": status,
        **fields,
    }


def test_a_recorded_fleet_has_the_capacity_and_nothing_of_a_person():
    recorded = record([node("ip-10-0-3-7.ec2.internal"), node("ip-10-0-3-8.ec2.internal")])
    for secret in ("jane", "10.0.3", "10-0-3", "i-0abc", "ec2a3b", "4f0c", "not-ready"):
        assert secret not in recorded.text
    assert recorded.omitted_labels == ("accelerator", "team")
    assert recorded.replaced_taints == ("dedicated",)
    fleet = read_fleet(recorded.text.encode(), "nodes.yaml")
    [pool] = fleet.pools
    assert (pool.name, pool.count, pool.allocatable["nvidia.com/gpu"]) == ("p5-48xlarge", 2, "8")
    assert [(each.key, each.value) for each in pool.taints] == [
        ("nvidia.com/gpu", "present"),
        ("dedicated", "not-recorded"),
    ]
    assert len(node_objects(fleet)) == 2


def test_a_label_is_kept_on_request_and_other_shapes_are_other_pools():
    recorded = record([node("a"), node("b", spec={"unschedulable": True})], labels=("accelerator",))
    pools = read_fleet(recorded.text.encode(), "nodes.yaml").pools
    assert [(each.name, each.unschedulable, each.labels["accelerator"]) for each in pools] == [
        ("p5-48xlarge", False, "h100"),
        ("p5-48xlarge-2", True, "h100"),
    ]


def test_the_load_of_others_is_counted_by_pool_without_names():
    container = {"name": "x", "resources": {"limits": {"nvidia.com/gpu": "4", "cpu": "2"}}}
    pod = {
        "metadata": {"name": "jane"},
        "spec": {"nodeName": "a", "containers": [container]},
        "status": {"phase": "Running"},
    }
    ended = {**pod, "status": {"phase": "Succeeded"}}
    recorded = record([node("a")], [pod, pod, ended])
    assert "jane" not in recorded.text
    fleet = read_fleet(recorded.text.encode(), "nodes.yaml")
    assert [(each.pool, each.pods, each.requests) for each in fleet.load] == [
        ("p5-48xlarge", 2, {"nvidia.com/gpu": 4})
    ]
    assert {each["spec"]["nodeName"] for each in load_objects(fleet) if each["kind"] == "Pod"} == {
        "p5-48xlarge-0"
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pools: []", "2:1: pools: An empty list is not valid. Expected at least 1 entry."),
        (
            "pools: [{name: a, count: 2000}]",
            "2:19: pools[0].count: 2000 is not valid. Expected at most 1000.",
        ),
        (
            "pools: [{name: a, count: true}]",
            "2:19: pools[0].count: true is not valid. Expected a whole number.",
        ),
        (
            "pools: [{name: a, count: 1, allocatable: {cpu: 3GB}}]",
            "2:43: pools[0].allocatable.cpu: '3GB' is not a Kubernetes quantity",
        ),
        (
            "pools: [{name: a, count: 1, allocatable: {cpu: -4}}]",
            "2:43: pools[0].allocatable.cpu: -4 is negative. Use 0 or more.",
        ),
        (
            "pools: [{name: a, count: 1, lables: {}}]",
            "2:29: pools[0].lables: Unknown field 'lables'. Did you mean 'labels'?",
        ),
        (
            "pools: [{name: a, count: 1, labels: {x y: b}}]",
            "2:38: pools[0].labels['x y']: 'x y' is not a valid name.",
        ),
        (
            "pools: [{name: a, count: 1}]\nload: [{pool: b, pods: 1, requests: {}}]",
            "3:9: load[0].pool: load names the unknown pool 'b'.",
        ),
        (
            "pools:\n- {name: a, count: 1}\n- {name: a, count: 1}",
            "4:4: pools[1].name: Two pools have the name 'a'. Rename one.",
        ),
        (
            "pools:\n- {name: a, count: 1000}\n- {name: b, count: 1}",
            "2:1: pools: The pools have more than 1,000 nodes together.",
        ),
    ],
)
def test_errors_of_a_nodes_file_name_the_line_and_the_field(text, words):
    with pytest.raises(InputError) as caught:
        read_fleet(f"kind: Fleet\n{text}\n".encode(), "nodes.yaml")
    [error] = caught.value.errors
    assert error.startswith(f"nodes.yaml:{words}")


def test_a_nodes_file_that_is_a_list_is_rejected():
    with pytest.raises(InputError, match="one mapping"):
        read_fleet(b"- a\n", "nodes.yaml")


def test_a_recorded_fleet_that_an_audit_rejects_is_named_as_such():
    quantities = node("a", status={"allocatable": {"cpu": "lots", "pods": "0"}})
    recorded = record([quantities])
    assert recorded.errors == ()
    assert read_fleet(recorded.text.encode(), "nodes.yaml").pools[0].allocatable == {"pods": "0"}
    [error] = record([node(f"n{index}") for index in range(1001)]).errors
    assert "1001 is not valid. Expected at most 1000." in error


@pytest.mark.parametrize(
    "answer",
    [
        "<html>",
        '{"items": [{"meta',
        '{"kind": "NodeList"}',
        '{"items": [{}]}',
        '{"items": ["x"]}',
        json.dumps({"items": [TAINTED]}),
    ],
)
def test_an_answer_that_is_no_list_of_nodes_is_one_sentence(answer, monkeypatch):
    monkeypatch.setattr(Kubectl, "text", lambda *_: answer)
    with pytest.raises(OperationError, match="kubectl config view --minify --context prod"):
        record_nodes("prod")


def test_devices_of_a_pool_become_what_their_driver_publishes():
    text = """
kind: Fleet
pools:
- {name: h100, count: 2, devices: [{driver: gpu.nvidia.com, count: 8, attributes: {type: gpu, uvm: true}, capacity: {memory: 80Gi}}]}
"""
    objects = node_objects(read_fleet(text.encode(), "nodes.yaml"))
    kinds = [each["kind"] for each in objects]
    assert (kinds.count("DeviceClass"), kinds.count("ResourceSlice")) == (1, 2)
    spec = objects[-1]["spec"]
    assert (spec["nodeName"], len(spec["devices"])) == ("h100-1", 8)
    assert spec["devices"][0]["attributes"] == {"type": {"string": "gpu"}, "uvm": {"bool": True}}
    with pytest.raises(
        InputError, match=r"devices\[0\]\.capacity\.memory: '80 GB' is not a Kubernetes quantity"
    ):
        read_fleet(text.replace("80Gi", "80 GB").encode(), "nodes.yaml")


def resource_slice(node: str, devices: list) -> dict:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-x"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices},
    }


def test_devices_are_recorded_without_what_identifies_one_and_published_again():
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "productName": {"string": "H100"},
                "driverVersion": {"version": "580.1.0"},
                "uuid": {"string": f"GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23{index}"},
                "index": {"int": index},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index in range(2)
    ]
    partition = {"name": "mig", "attributes": {}, "consumesCounters": []}
    device_class = {
        "metadata": {"name": "large"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    }
    recorded = record(
        [node("a"), node("b")],
        (),
        [resource_slice("a", devices), resource_slice("b", [*devices, partition])],
        [device_class],
    )
    assert recorded.omitted_devices == ("gpu.nvidia.com: partitions",)
    assert "4404041a" not in recorded.text
    fleet = read_fleet(recorded.text.encode(), "nodes.yaml")
    [pool] = fleet.pools
    assert (pool.count, pool.devices[0].count, pool.devices[0].attributes["productName"]) == (
        2,
        2,
        "H100",
    )
    objects = node_objects(fleet)
    assert [each["metadata"]["name"] for each in objects if each["kind"] == "DeviceClass"] == [
        "gpu.nvidia.com",
        "large",
    ]
    published = [each for each in objects if each["kind"] == "ResourceSlice"]
    assert published[0]["spec"]["devices"][1]["attributes"] == {
        "driverVersion": {"version": "580.1.0"},
        "productName": {"string": "H100"},
    }
