"""EFA from the launch template to the pod, held against what AWS publishes.

Network cards: aws/karpenter-provider-aws pkg/providers/instancetype/zz_generated.vpclimits.go
(2026-08-06). EFA interfaces: its website, reference/instance-types (2026-08-21). Interface types
and indexes: EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple
network cards" (read 2026-11). Pod: aws-samples/awsome-distributed-training,
micro-benchmarks/nccl-tests/kubernetes (2026-02).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.handles import NodeTarget
from inferplan.components.nodes.fake_nodes import fake_nodes
from inferplan.components.platforms.aws.launch_template import network_interfaces
from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.components.queue.quota import covered_resources, quota_amounts
from inferplan.components.queue.spec import QueueSpec
from inferplan.documents.errors import InvalidStack
from inferplan.hardware.machines import machine, machines
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.unit.aws.rig import CREATED, SYSTEM, declared
from tests.unit.aws.test_pools import CLOSE, template, whole
from tests.unit.serving.models import container_of, vllm
from tests.unit.serving.models import declared as served
from tests.unit.serving.test_ray_serve import ray

CARDS = {
    "g5.8xlarge": (1, 1),
    "g5.48xlarge": (1, 1),
    "g6e.24xlarge": (2, 2),
    "g6e.48xlarge": (4, 4),
    "g7.48xlarge": (2, 2),
    "g7e.48xlarge": (4, 4),
    "p4d.24xlarge": (4, 4),
    "p4de.24xlarge": (4, 4),
    "p5.4xlarge": (1, 1),
    "p5.48xlarge": (32, 32),
    "p5e.48xlarge": (32, 32),
    "p5en.48xlarge": (16, 16),
    "p6-b200.48xlarge": (8, 8),
    "p6-b300.48xlarge": (17, 16),
    "dl1.24xlarge": (4, 4),
}
WIDE = {"tensorParallelSize": 8, "pipelineParallelSize": 2, "nnodes": 2}


def efa_pool(instance_type: str = "p5.48xlarge", **fields: Any) -> EksPool:
    image = {"amiId": "ami-0123456789abcdef0"} if instance_type.startswith("dl1") else {}
    accelerator = machine(instance_type).accelerator
    return EksPool.model_validate(
        {
            "provider": "eks",
            "accelerator": accelerator,
            "instanceTypes": [instance_type],
            "zones": ["us-east-1b"],
            "efa": True,
            "size": {"max": 2},
            **image,
            **fields,
        }
    )


def nodes(instance_type: str = "p5.48xlarge", **fields: Any) -> NodeTarget:
    return efa_pool(instance_type, **fields).target("p")


@pytest.mark.parametrize("name", CARDS)
def test_the_table_has_the_network_cards_and_efa_interfaces_that_aws_publishes(name):
    assert (machine(name).network_cards, machine(name).efa) == CARDS[name]


@pytest.mark.parametrize("name", [each.name for each in machines().values() if each.efa])
def test_the_primary_interface_carries_ip_and_each_card_that_takes_one_has_one_efa_only_interface(
    name,
):
    made: list[Any] = [
        (each.get("network_card_index"), each.get("device_index"), each.get("interface_type"))
        for each in network_interfaces(efa_pool(name), ["sg-1"])
    ]
    assert made[0] == (0, 0, None)
    assert {kind for _, _, kind in made[1:]} == {"efa-only"}
    assert len({(card, device) for card, device, _ in made}) == len(made)
    cards = [card for card, _, _ in made[1:]]
    assert len(cards) == len(set(cards)) == machine(name).efa
    assert max(cards) < machine(name).network_cards
    # The second device of card 0, the first of every other.
    assert all(device == (1 if card == 0 else 0) for card, device, _ in made[1:])


def test_network_card_0_of_p6_b300_takes_no_efa_interface():
    made = network_interfaces(efa_pool("p6-b300.48xlarge"), ["sg-1"])
    assert [
        each.get("network_card_index") for each in made if each.get("interface_type") == "efa-only"
    ] == list(range(1, 17))


def test_every_interface_is_in_the_group_that_lets_efa_through_and_no_groups_stand_beside_the_interfaces():
    made = template(whole(CLOSE))
    assert len(made["networkInterfaces"]) == 33
    assert {len(each["securityGroups"]) for each in made["networkInterfaces"]} == {3}
    assert "vpcSecurityGroupIds" not in made
    assert made["placement"]["groupName"]


@pytest.mark.parametrize(
    ("name", "pages"), [("p4de.24xlarge", "21122Mi"), ("p5.48xlarge", "42242Mi")]
)
def test_a_node_has_the_huge_pages_that_aws_shows_of_it_and_tells_the_autoscaler(name, pages):
    [node] = fake_nodes("p", efa_pool(name), count=1)
    assert node["status"]["allocatable"]["hugepages-2Mi"] == pages
    assert node["status"]["allocatable"]["vpc.amazonaws.com/efa"] == str(machine(name).efa)
    plain = EksPool.model_validate({**CLOSE, "efa": False})
    assert (
        plain.capacity.memory_bytes - efa_pool().capacity.memory_bytes
        == efa_pool().capacity.hugepages_2mi_bytes
    )
    assert plain.capacity.efa == plain.capacity.hugepages_2mi_bytes == 0


def test_the_pods_of_a_replica_that_spans_nodes_request_every_interface_and_huge_pages_alike_in_requests_and_limits():
    group = served(vllm(**WIDE), target=nodes()).one(
        "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    )
    for kind in ("leaderTemplate", "workerTemplate"):
        [container] = group.inputs["spec"]["leaderWorkerTemplate"][kind]["spec"]["containers"]
        for side in ("requests", "limits"):
            assert container["resources"][side]["vpc.amazonaws.com/efa"] == "32"
            assert container["resources"][side]["hugepages-2Mi"] == "5Gi"
        variables = {each["name"]: each.get("value") for each in container["env"]}
        assert variables["FI_PROVIDER"] == "efa"
        # libfabric ends the process where this is 1 and the hardware has no RDMA, as on g5 and g6.
        assert "FI_EFA_USE_DEVICE_RDMA" not in variables


def test_pods_that_share_a_node_share_its_interfaces_and_pages():
    half = {"tensorParallelSize": 4, "pipelineParallelSize": 3, "nnodes": 3}
    group = served(vllm(**half), target=nodes()).one(
        "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    )
    limits = group.inputs["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]["containers"][
        0
    ]["resources"]["limits"]
    assert (limits["vpc.amazonaws.com/efa"], limits["hugepages-2Mi"]) == ("16", "2560Mi")


def test_a_replica_on_one_node_or_on_a_pool_without_efa_requests_none():
    for container in (
        container_of(vllm(tensorParallelSize=8), target=nodes()),
        served(vllm(**WIDE), target=nodes(efa=False))
        .one("kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet")
        .inputs["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]["containers"][0],
    ):
        assert "vpc.amazonaws.com/efa" not in container["resources"]["limits"]
        assert "hugepages-2Mi" not in container["resources"]["limits"]
        assert "FI_PROVIDER" not in {each["name"] for each in container["env"]}


def test_ray_s_workers_request_efa_where_the_stages_of_a_model_are_on_several_of_them():
    def worker(**app: Any) -> dict[str, Any]:
        spec = ray(applications={"chat": {"kind": "llm", **app}}, replicas=2, accelerators=8)
        service = served(spec, target=nodes()).one("kubernetes:ray.io/v1:RayService").inputs["spec"]
        return service["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][
            0
        ]

    assert (
        worker(tensorParallelSize=8, pipelineParallelSize=2)["resources"]["limits"][
            "vpc.amazonaws.com/efa"
        ]
        == "32"
    )
    assert "vpc.amazonaws.com/efa" not in worker(tensorParallelSize=8)["resources"]["limits"]


@pytest.mark.parametrize(
    ("fields", "warned"), [({}, True), ({"image": "registry.acme.example/vllm-efa:v0.33.0"}, False)]
)
def test_a_default_image_without_efa_s_libraries_is_told_in_the_plan(fields, warned):
    messages = [
        each.message
        for each in served(vllm(**WIDE, **fields), target=nodes()).diagnostics
        if "EFA" in each.message
    ]
    assert [("inferplan/images/vllm-efa" in each) for each in messages] == (
        [True] if warned else []
    )


def test_a_queue_covers_efa_and_grants_what_the_pool_has():
    spec = QueueSpec.model_validate({"pools": {"p": {}}})
    assert "vpc.amazonaws.com/efa" in covered_resources(spec, {"p": nodes()})
    assert quota_amounts(spec.pools["p"], nodes())["vpc.amazonaws.com/efa"] == 64


def test_the_plugin_runs_where_interfaces_are_attached():
    recording = declared(cluster=CREATED, nodePools={"system": SYSTEM, "p": CLOSE})
    assert "efa-device-plugin" in {
        each.name for each in recording.of_type("kubernetes:apps/v1:DaemonSet")
    }


def test_efa_on_an_instance_type_without_it_is_refused_with_file_and_line_and_what_to_write(
    tmp_path: Path,
):
    stack = (Path(__file__).parents[3] / "stacks" / "Pulumi.prod.yaml").read_text(encoding="utf-8")
    spoilt = tmp_path / "Pulumi.prod.yaml"
    spoilt.write_text(
        stack.replace(
            "      capacityTypes: [SPOT, ON_DEMAND]\n",
            "      capacityTypes: [SPOT, ON_DEMAND]\n      efa: true\n",
        )
    )
    line = spoilt.read_text().splitlines().index("    l40s:") + 1
    with pytest.raises(InvalidStack) as refused:
        validate(read_stack(spoilt, shown_path="s.yaml"))
    [fault] = refused.value.lines
    assert re.match(rf"s\.yaml:({line}|{line + 1}):\d+: ", fault), fault
    assert "g6e.4xlarge has none. Write instanceTypes: [g6e.8xlarge]" in fault
