from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from inferplan.components.naming import MAX_NAME
from inferplan.components.nodes.fake_nodes import (
    cpu_nodes,
    fake_nodes,
    fake_runtime_classes,
    node_name,
    runtime_classes_of,
)
from inferplan.components.pools import NodePoolSpec
from inferplan.kube.quantity import bytes_of, millicores_of, size_quantity
from tests.unit.nodes.pools import pools

POOL = TypeAdapter(NodePoolSpec)


def pool(**fields):
    return POOL.validate_python({"provider": "simulated", "nodes": 2, **fields})


def test_a_gaudi_node_offers_cards_and_huge_pages_and_less_memory_for_them():
    node = fake_nodes("gaudi2", pool(accelerator="gaudi-2"))[0]
    assert node["status"]["allocatable"] == {
        "cpu": "159530m",
        "ephemeral-storage": "89Gi",
        "habana.ai/gaudi": "8",
        "hugepages-2Mi": "95000Mi",
        "memory": "873367Mi",
        "pods": "110",
    }
    assert node["status"]["capacity"]["memory"] == "969932Mi"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["spec"]["taints"] == [
        {"key": "habana.ai/gaudi", "value": "present", "effect": "NoSchedule"}
    ]


def test_an_nvidia_node_carries_the_labels_of_feature_discovery():
    labels = fake_nodes("l40s", pool(accelerator="nvidia-l40s", machine="g6e.12xlarge"))[1][
        "metadata"
    ]["labels"]
    assert (
        labels.items()
        >= {
            "inferplan.dev/pool": "l40s",
            "kubernetes.io/hostname": "l40s-1",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": "g6e.12xlarge",
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": "NVIDIA-L40S",
            "nvidia.com/gpu.count": "4",
            "nvidia.com/gpu.memory": "45776",
            "nvidia.com/gpu.compute.major": "8",
            "nvidia.com/gpu.compute.minor": "9",
            "nvidia.com/mig.capable": "false",
        }.items()
    )


def test_nodes_are_spread_over_the_zones_in_turn():
    nodes = fake_nodes("p", pool(nodes=3, zones=["a", "b"]))
    assert [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes] == [
        "a",
        "b",
        "a",
    ]


def test_adopted_nodes_get_no_zone_that_nobody_gave_them():
    spec = POOL.validate_python({"provider": "existing", "nodes": 1, "accelerator": "gaudi-2"})
    labels = fake_nodes("p", spec)[0]["metadata"]["labels"]
    assert not [label for label in labels if label.startswith("topology.")]


def test_the_pool_is_found_by_its_selector_even_where_that_contradicts_the_table():
    selector = {"node.kubernetes.io/instance-type": "rack-4", "rack": "4"}
    spec = POOL.validate_python(
        {"provider": "existing", "nodes": 2, "accelerator": "gaudi-2", "nodeSelector": selector}
    )
    for node in fake_nodes("p", spec):
        assert node["metadata"]["labels"].items() >= selector.items()


def test_plain_cpu_nodes_belong_to_no_pool_and_take_every_pod():
    nodes = cpu_nodes(2)
    assert [node["metadata"]["name"] for node in nodes] == ["rehearsal-cpu-0", "rehearsal-cpu-1"]
    assert all("inferplan.dev/pool" not in node["metadata"]["labels"] for node in nodes)
    assert all(node["spec"] == {} for node in nodes)
    assert cpu_nodes(0) == []


def test_two_pools_of_one_vendor_share_a_runtime_class():
    named = runtime_classes_of(
        {
            "a": pool(accelerator="gaudi-2"),
            "b": pool(accelerator="gaudi-3"),
            "c": pool(accelerator="nvidia-l4"),
        }
    )
    assert named == ("habana",)
    assert fake_runtime_classes([*named, "habana"]) == [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "habana"},
            "handler": "habana",
        }
    ]


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        (0, "0"),
        (1, "1"),
        (1000, "1k"),
        (1024, "1Ki"),
        (2**40, "1Ti"),
        (1536 * 2**20, "1536Mi"),
        (5 * 10**6, "5M"),
        (2**40 + 1, "1099511627777"),
    ],
)
def test_a_quantity_is_written_as_the_api_server_writes_it(amount, written):
    assert size_quantity(amount) == written


@given(st.integers(min_value=1, max_value=10**15 - 1))
def test_a_quantity_reads_back_as_the_same_amount(amount):
    assert bytes_of(size_quantity(amount)) == amount


_NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(_NAMES, _NAMES, st.integers(0, 4999), st.integers(0, 4999))
def test_node_names_fit_a_label_and_never_meet_those_of_another_pool(one, other, first, second):
    names = node_name(one, first), node_name(other, second)
    assert all(len(name) <= MAX_NAME for name in names)
    assert (names[0] == names[1]) == ((one, first) == (other, second))


@given(_NAMES, pools())
def test_fake_nodes_match_their_pools_target_and_hold_what_it_promises(name, spec):
    target = spec.target(name)
    nodes = fake_nodes(name, spec)
    assert len({node["metadata"]["name"] for node in nodes}) == len(nodes) == target.nodes
    assert json.dumps(nodes) == json.dumps(fake_nodes(name, spec))
    for node in nodes:
        assert node["metadata"]["labels"].items() >= dict(target.node_selector).items()
        assert len(node["spec"].get("taints", ())) == len(target.taints)
        offered, whole = node["status"]["allocatable"], node["status"]["capacity"]
        assert offered.keys() == whole.keys()
        assert (
            millicores_of(offered["cpu"])
            == target.capacity.cpu_millicores
            <= millicores_of(whole["cpu"])
        )
        pages = bytes_of(offered.get("hugepages-2Mi", "0"))
        assert (
            bytes_of(offered["memory"])
            == target.capacity.memory_bytes
            <= bytes_of(whole["memory"]) - pages
        )
        if target.accelerator is not None:
            assert int(offered[target.accelerator.resource]) == target.capacity.accelerators >= 1


@given(pools())
def test_what_a_preview_shows_of_a_pool_reads_back_as_the_same_pool(spec):
    again = POOL.validate_python(spec.intent())
    assert again == spec
    assert again.target("p") == spec.target("p")
    assert again.capacity == spec.capacity
