from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from inferplan.components.nodes.fake_nodes import fake_nodes
from inferplan.components.nodes.node_pool import NodePool, RuntimeClasses
from inferplan.components.pools import NodePoolSpec
from tests.recorder import declare

POOL: TypeAdapter[Any] = TypeAdapter(NodePoolSpec)
NODE = "kubernetes:core/v1:Node"
SIMULATED = POOL.validate_python(
    {"provider": "simulated", "accelerator": "gaudi-2", "nodes": 2, "zones": ["a", "b"]}
)
EXISTING = POOL.validate_python({"provider": "existing", "accelerator": "nvidia-h100", "nodes": 3})


def test_an_existing_pool_creates_nothing_and_lends_its_target():
    lent = []
    recording = declare(lambda: lent.append(NodePool("h100", EXISTING).target))
    assert [each.type for each in recording] == ["inferplan:nodes:NodePool"]
    assert lent == [EXISTING.target("h100")]


def test_a_pool_shows_the_change_of_intent():
    pool = declare(lambda: NodePool("h100", EXISTING)).one("inferplan:nodes:NodePool")
    assert pool.inputs == {
        "spec": {"provider": "existing", "accelerator": "nvidia-h100", "nodes": 3}
    }


def test_a_simulated_pool_registers_exactly_its_fake_nodes_under_itself():
    recording = declare(lambda: NodePool("gaudi2", SIMULATED))
    children = recording.children(recording.one("inferplan:nodes:NodePool"))
    assert [each.name for each in children] == ["gaudi2-0", "gaudi2-1"]
    assert [dict(each.inputs) for each in children] == fake_nodes("gaudi2", SIMULATED)


def test_a_node_is_replaced_when_its_capacity_changes_since_an_update_would_be_ignored():
    options = declare(lambda: NodePool("gaudi2", SIMULATED)).one(NODE, "gaudi2-0").options
    assert options.replace_on_changes == ("status",)
    assert options.delete_before_replace


def test_what_a_pool_offers_is_an_output_of_the_component():
    recording = declare(lambda: NodePool("gaudi2", SIMULATED))
    pool = recording.one("inferplan:nodes:NodePool")
    assert recording.component_outputs[pool.urn] == {"nodes": 2, "accelerators": 16}


def test_two_pools_with_names_alike_do_not_collide():
    def program():
        NodePool("a", POOL.validate_python({"provider": "simulated", "nodes": 3}))
        NodePool("a-1", POOL.validate_python({"provider": "simulated", "nodes": 3}))

    nodes = declare(program).of_type(NODE)
    assert (
        len({each.urn for each in nodes})
        == len({each.inputs["metadata"]["name"] for each in nodes})
        == 6
    )


def test_runtime_classes_are_registered_once_each_under_the_name_that_pods_use():
    recording = declare(lambda: RuntimeClasses("runtime-classes", ("habana", "nvidia")))
    classes = recording.of_type("kubernetes:node.k8s.io/v1:RuntimeClass")
    assert [
        (each.name, each.inputs["metadata"]["name"], each.inputs["handler"]) for each in classes
    ] == [
        ("runtime-classes-habana", "habana", "habana"),
        ("runtime-classes-nvidia", "nvidia", "nvidia"),
    ]
    assert all(
        each.parent == recording.one("inferplan:nodes:RuntimeClasses").urn for each in classes
    )
