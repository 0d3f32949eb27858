"""What an EC2 pool becomes: node groups and their launch template. What its nodes are told at boot
is elsewhere.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.components.pools import NodePoolSpec
from inferplan.pulumi_engine.recording import Recording
from tests.unit.aws.rig import ADOPTED, CREATED, L40S, SYSTEM, declared

GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
POOL: TypeAdapter[Any] = TypeAdapter(NodePoolSpec)
BLOCK = {
    "provider": "eks",
    "accelerator": "nvidia-h100",
    "instanceTypes": ["p5.48xlarge"],
    "capacityTypes": ["CAPACITY_BLOCK"],
    "capacityReservation": {"id": "cr-0123456789abcdef0", "zone": "us-east-1b"},
    "size": {"max": 2},
}
CLOSE = {
    "provider": "eks",
    "accelerator": "nvidia-h100",
    "instanceTypes": ["p5.48xlarge"],
    "zones": ["us-east-1b"],
    "efa": True,
    "placementGroup": True,
    "size": {"max": 2},
}
DL1 = {
    "provider": "eks",
    "accelerator": "gaudi-1",
    "amiId": "ami-0123456789abcdef0",
    "size": {"max": 1},
}


def pool(**fields: Any) -> Recording:
    return declared(cluster=CREATED, nodePools={"system": SYSTEM, "p": {**L40S, **fields}})


def whole(spec: dict[str, Any]) -> Recording:
    return declared(cluster=CREATED, nodePools={"system": SYSTEM, "p": spec})


def template(recording: Recording) -> dict[str, Any]:
    return recording.one(TEMPLATE, "p").inputs


def fault(**fields: Any) -> str:
    given = {key: value for key, value in {**L40S, **fields}.items() if value is not None}
    with pytest.raises(ValidationError) as caught:
        POOL.validate_python(given)
    return str(caught.value)


def test_a_pool_of_two_capacity_types_is_two_groups_of_one_template_and_the_last_keeps_the_least():
    recording = pool(capacityTypes=["SPOT", "ON_DEMAND"], size={"min": 1, "max": 5})
    spot, steady = recording.one(GROUP, "p-spot").inputs, recording.one(GROUP, "p-on-demand").inputs
    assert spot["scalingConfig"] == {"minSize": 0, "maxSize": 5, "desiredSize": 0}
    assert steady["scalingConfig"] == {"minSize": 1, "maxSize": 5, "desiredSize": 1}
    assert spot["launchTemplate"] == steady["launchTemplate"]
    assert spot["instanceTypes"] == ["g6e.4xlarge", "g6e.8xlarge"]


def test_the_last_group_starts_with_the_desired_nodes_and_keeps_the_minimum():
    recording = pool(capacityTypes=["SPOT", "ON_DEMAND"], size={"min": 1, "desired": 3, "max": 5})
    assert recording.one(GROUP, "p-spot").inputs["scalingConfig"] == {
        "minSize": 0,
        "maxSize": 5,
        "desiredSize": 0,
    }
    assert recording.one(GROUP, "p-on-demand").inputs["scalingConfig"] == {
        "minSize": 1,
        "maxSize": 5,
        "desiredSize": 3,
    }


def test_nodes_with_nvidia_s_accelerators_carry_the_label_by_which_the_autoscaler_waits_for_them():
    recording = declared(cluster=CREATED, nodePools={"system": SYSTEM, "p": L40S, "dl1": DL1})
    labels = {each.name: each.inputs["labels"] for each in recording.of_type(GROUP)}
    assert labels["p-on-demand"] == {
        "inferplan.dev/pool": "p",
        "k8s.amazonaws.com/accelerator": "nvidia-l40s",
    }
    assert labels["system-on-demand"] == {"inferplan.dev/pool": "system"}
    assert labels["dl1-on-demand"] == {"inferplan.dev/pool": "dl1"}, (
        "the autoscaler would wait for nvidia.com/gpu forever"
    )


@pytest.mark.parametrize("desired", [1, 6])
def test_a_desired_size_outside_the_range_is_rejected(desired):
    error = fault(size={"min": 2, "desired": desired, "max": 5})
    assert f"desired is {desired}, which is not between min (2) and max (5). Use 2 to 5" in error


@pytest.mark.parametrize("cluster", [CREATED, ADOPTED])
def test_nodes_are_of_the_cluster_s_version_and_follow_it(cluster):
    recording = declared(cluster=cluster, nodePools={"system": SYSTEM, "p": L40S, "dl1": DL1})
    groups = {each.name: each for each in recording.of_type(GROUP)}
    assert {name: each.inputs.get("version") for name, each in groups.items()} == {
        "system-on-demand": "1.34",
        "p-on-demand": "1.34",
        "dl1-on-demand": None,
    }


def test_the_autoscaler_s_count_is_left_alone():
    assert pool().one(GROUP, "p-on-demand").options.ignore_changes == ("scalingConfig.desiredSize",)


def test_taints_are_spelled_for_eks_and_labels_are_those_that_pods_select_by():
    group = pool(labels={"team": "chat"}).one(GROUP, "p-on-demand").inputs
    assert group["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    ]
    assert group["labels"] == {
        "inferplan.dev/pool": "p",
        "team": "chat",
        "k8s.amazonaws.com/accelerator": "nvidia-l40s",
    }


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("NoSchedule", "NO_SCHEDULE"),
        ("NoExecute", "NO_EXECUTE"),
        ("PreferNoSchedule", "PREFER_NO_SCHEDULE"),
    ],
)
def test_every_taint_effect_has_its_spelling_at_aws(ours, theirs):
    group = pool(taints=[{"key": "a", "effect": ours}]).one(GROUP, "p-on-demand").inputs
    assert group["taints"][0]["effect"] == theirs


def test_a_template_asks_for_imdsv2_with_one_hop_and_encrypted_disks_in_the_cluster_s_group():
    made = template(pool())
    assert made["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }
    assert [disk["ebs"]["encrypted"] for disk in made["blockDeviceMappings"]] == ["true"]
    assert made["vpcSecurityGroupIds"][0] == "sg-00000000000000001"
    assert len(made["vpcSecurityGroupIds"]) == 2
    assert "keyName" not in made
    assert "userData" not in made


def test_a_capacity_block_puts_type_market_and_reservation_into_the_template_and_stays_in_its_zone():
    recording = whole(BLOCK)
    made, group = template(recording), recording.one(GROUP, "p-capacity-block").inputs
    assert made["instanceType"] == "p5.48xlarge"
    assert made["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert (
        made["capacityReservationSpecification"]["capacityReservationTarget"][
            "capacityReservationId"
        ]
        == "cr-0123456789abcdef0"
    )
    assert "instanceTypes" not in group
    assert group["capacityType"] == "CAPACITY_BLOCK"
    assert group["scalingConfig"]["desiredSize"] == 0
    assert group["updateConfig"]["updateStrategy"] == "MINIMAL"
    zones = {
        each.inputs["availabilityZone"]
        for each in recording.of_type("aws:ec2/subnet:Subnet")
        if each.name.startswith("prod-network-private")
    }
    assert zones == {"us-east-1a", "us-east-1b"}
    assert len(group["subnetIds"]) == 1


RESERVED = {**BLOCK, "capacityTypes": ["ON_DEMAND"], "size": {"min": 1, "max": 2}}


def test_an_on_demand_reservation_is_the_only_capacity_of_its_group_and_no_capacity_block():
    recording = whole(RESERVED)
    made, group = template(recording), recording.one(GROUP, "p-on-demand").inputs
    assert made["capacityReservationSpecification"] == {
        "capacityReservationPreference": "capacity-reservations-only",
        "capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"},
    }
    assert "instanceMarketOptions" not in made
    assert "instanceType" not in made
    assert (group["capacityType"], group["instanceTypes"]) == ("ON_DEMAND", ["p5.48xlarge"])
    assert group["scalingConfig"]["minSize"] == 1
    assert len(group["subnetIds"]) == 1, "the zone of the reservation"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"capacityTypes": ["SPOT"]}, "reserves no spot instances"),
        (
            {"instanceTypes": ["p5.48xlarge", "p5.4xlarge"]},
            "a capacity reservation is of one instance type",
        ),
        ({"zones": ["us-east-1a"]}, "a capacity reservation is in one zone (us-east-1b)"),
    ],
)
def test_a_reservation_that_the_pool_cannot_use_is_rejected(fields, said):
    with pytest.raises(ValidationError) as caught:
        POOL.validate_python({**RESERVED, **fields})
    assert said in str(caught.value)


def test_efa_traffic_stays_within_the_pool():
    group = whole({**BLOCK, "efa": True}).one("aws:ec2/securityGroup:SecurityGroup", "p-efa").inputs
    for rules in (group["ingress"], group["egress"]):
        assert [(rule["self"], rule.get("cidrBlocks")) for rule in rules] == [(True, None)]


def test_a_pool_registers_six_resources_at_most():
    recording = whole({**CLOSE, "capacityTypes": ["SPOT", "ON_DEMAND"], "acceptScarcity": True})
    [component] = [
        each for each in recording.of_type("inferplan:nodes:EksNodePool") if each.name == "p"
    ]
    assert len(recording.children(component)) + 1 <= 6
    both = pool(capacityTypes=["SPOT", "ON_DEMAND"])
    [component] = [each for each in both.of_type("inferplan:nodes:EksNodePool") if each.name == "p"]
    assert len(both.children(component)) + 1 == 4


@pytest.mark.parametrize("count", [1, 5, 20])
def test_every_further_pool_costs_the_same_three_resources(count):
    recording = declared(nodePools={f"p{n}": L40S for n in range(count)})
    fixed = declared(nodePools={"p0": L40S})
    assert len(recording) == len(fixed) + 3 * (count - 1)


def test_device_plugins_run_on_the_nodes_of_their_kind_only_and_not_where_the_image_brings_one():
    pools = {
        "system": SYSTEM,
        "l40s": L40S,
        "dl1": DL1,
        "rocket": {**L40S, "amiType": "BOTTLEROCKET_x86_64_NVIDIA"},
    }
    recording = declared(cluster=CREATED, nodePools=pools)
    made = {
        each.name: each.inputs["spec"]["template"]["spec"]
        for each in recording.of_type("kubernetes:apps/v1:DaemonSet")
    }
    assert sorted(made) == ["habana-device-plugin", "nvidia-device-plugin"]
    for name, pool_name, key in (
        ("nvidia-device-plugin", "l40s", "nvidia.com/gpu"),
        ("habana-device-plugin", "dl1", "habana.ai/gaudi"),
    ):
        [term] = made[name]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [
            {"key": "inferplan.dev/pool", "operator": "In", "values": [pool_name]}
        ]
        assert [each["key"] for each in made[name]["tolerations"]] == [key]


def test_the_nvidia_plugin_is_confined_as_upstream_s_manifest_and_asks_for_no_mig_monitor():
    recording = declared(cluster=CREATED, nodePools={"system": SYSTEM, "l40s": L40S})
    pod = recording.one("kubernetes:apps/v1:DaemonSet", "nvidia-device-plugin").inputs["spec"][
        "template"
    ]["spec"]
    [container] = pod["containers"]
    # NVIDIA/k8s-device-plugin v0.20.0: deployments/static/nvidia-device-plugin.yml, and the chart's
    # requiresCapSysAdmin.
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "NVIDIA_MIG_MONITOR_DEVICES" not in {each["name"] for each in container["env"]}
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("ami", ["AL2023_x86_64_NVIDIA", "BOTTLEROCKET_x86_64_NVIDIA"])
def test_the_efa_plugin_comes_with_a_pool_that_asks_for_efa_whatever_its_image(ami):
    recording = declared(
        cluster=CREATED,
        nodePools={"system": SYSTEM, "l40s": L40S, "block": {**BLOCK, "efa": True, "amiType": ami}},
    )
    plugin = recording.one("kubernetes:apps/v1:DaemonSet", "efa-device-plugin").inputs["spec"][
        "template"
    ]["spec"]
    [term] = plugin["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "inferplan.dev/pool", "operator": "In", "values": ["block"]}
    ]
    assert [each["key"] for each in plugin["tolerations"]] == ["nvidia.com/gpu"]
    [container] = plugin["containers"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == [
        "/var/lib/kubelet/device-plugins",
        "/dev/infiniband",
    ]
    # aws/eks-charts, stable/aws-efa-k8s-device-plugin/values.yaml, from v0.5.9 (2025-09-03) on.
    assert container["securityContext"] == {"privileged": True}
    without = declared(cluster=CREATED, nodePools={"system": SYSTEM, "block": BLOCK})
    assert "efa-device-plugin" not in {each.name for each in without}


FROM_ZERO = "k8s.io/cluster-autoscaler/node-template/resources"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (L40S, {"ephemeral-storage"}),
        (SYSTEM, {"ephemeral-storage"}),
        (DL1, {"ephemeral-storage", "habana.ai/gaudi", "hugepages-2Mi"}),
        ({**BLOCK, "efa": True}, {"ephemeral-storage", "vpc.amazonaws.com/efa", "hugepages-2Mi"}),
    ],
)
def test_an_autoscaler_is_told_what_an_empty_group_would_offer_beyond_its_machine_s_type(
    spec, told
):
    groups = [each.inputs for each in whole(spec).of_type(GROUP) if each.name.startswith("p-")]
    assert groups
    for group in groups:
        assert {key.removeprefix(f"{FROM_ZERO}/") for key in group["tags"]} == told
        # EKS refuses longer ones, and other characters.
        assert all(len(key) <= 128 and value.isdigit() for key, value in group["tags"].items())


def test_an_empty_pool_of_gaudi_offers_its_cards_to_the_autoscaler():
    group = whole(DL1).one(GROUP, "p-on-demand").inputs
    assert group["tags"][f"{FROM_ZERO}/habana.ai/gaudi"] == "8"
    assert group["tags"][f"{FROM_ZERO}/hugepages-2Mi"] == str(21000 * 2 * 2**20)


def test_descriptions_of_security_groups_have_only_letters_that_ec2_takes():
    recording = declared(
        cluster=CREATED,
        nodePools={"system": SYSTEM, "p": {**BLOCK, "efa": True}},
        storage={"shared": {"kind": "efs"}},
    )
    groups = recording.of_type("aws:ec2/securityGroup:SecurityGroup")
    assert len(groups) == 3
    for each in groups:
        for text in (
            each.inputs["description"],
            *(rule["description"] for rule in each.inputs["ingress"]),
        ):
            assert re.fullmatch(r"[A-Za-z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{1,255}", text), text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"amiType": "AL2_x86_64_GPU"}, "AWS stopped publishing these images on 2025-11-26"),
        ({"amiType": "AL2023_x86_64_NVIDA"}, "Did you mean 'AL2023_x86_64_NVIDIA'"),
        ({"amiType": "AL2023_ARM_64_NVIDIA"}, "pools do not support"),
        ({"amiType": "AL2023_x86_64_STANDARD"}, "has no driver for nvidia-l40s"),
        ({"amiType": "CUSTOM"}, "amiId is needed"),
        ({"amiId": "ami-0123456789abcdef0"}, "amiId belongs to amiType: CUSTOM"),
        ({"instanceTypes": ["g6e.4xlarge", "g6e.12xlarge"]}, "g6e.4xlarge 1, g6e.12xlarge 4"),
        ({"instanceTypes": ["g6.4xlarge"]}, "carries nvidia-l4, the pool nvidia-l40s"),
        ({"instanceTypes": ["g6e.3xlarge"]}, "Did you mean"),
        (
            {"instanceTypes": ["hls-gaudi2"], "accelerator": "gaudi-2"},
            "is not an EC2 instance type",
        ),
        ({"capacityTypes": ["SPOT"], "instanceTypes": ["g6e.4xlarge"]}, "acceptScarcity: true"),
        ({"capacityTypes": ["spot"]}, "'ON_DEMAND', 'SPOT' or 'CAPACITY_BLOCK'"),
        (
            {"capacityTypes": ["CAPACITY_BLOCK"]},
            "Write capacityReservation: {id: cr-..., zone: ...}",
        ),
        ({"capacityTypes": ["CAPACITY_BLOCK", "SPOT"]}, "do not go together"),
        (
            {"capacityReservation": BLOCK["capacityReservation"]},
            "a capacity reservation is of one instance type",
        ),
        ({"size": {"min": 3, "max": 2}}, "min is 3 and max 2"),
        ({"efa": True}, "g6e.4xlarge has none. Write instanceTypes: [g6e.8xlarge], or another of"),
        (
            {"efa": True, "instanceTypes": ["g6e.8xlarge"]},
            "EFA traffic never leaves one. Write zones: [<one zone>]",
        ),
        (
            {"efa": True, "accelerator": None, "instanceTypes": ["m7i.xlarge"]},
            "m7i.xlarge has none. Remove efa",
        ),
        ({**BLOCK, "placementGroup": True}, "Remove placementGroup"),
        ({"placementGroup": True}, "Write zones: [<one zone>]"),
        ({"zones": ["us-east-1a", "us-east-1a"]}, "zones names a zone more than once"),
        ({"labels": {"eks.amazonaws.com/nodegroup": "x"}}, "sets itself. Remove it"),
        ({"labels": {"inferplan.dev/pool": "x"}}, "sets itself. Remove it"),
        ({"rootVolume": {"size": "5Gi"}}, "Write 20Gi to 16Ti"),
        ({"rootVolume": {"type": "gp33"}}, "Did you mean 'gp3'"),
        ({"rootVolume": {"type": "st1"}}, "cannot boot a node well"),
        ({"rootVolume": {"type": "io2"}}, "do not start without iops. Write iops: 100 to 256000"),
        ({"rootVolume": {"type": "io1", "size": "100Gi"}}, "Write iops: 100 to 5000"),
        ({"rootVolume": {"type": "io1", "iops": 6000, "size": "100Gi"}}, "100 to 5000 IOPS, not"),
        ({"rootVolume": {"type": "io1", "iops": 65000}}, "100 to 64000 IOPS"),
        ({"rootVolume": {"type": "gp3", "iops": 2999}}, "3000 to 80000 IOPS, not 2999"),
        ({"rootVolume": {"iops": 9000, "size": "16Gi"}}, "3000 to 8000 IOPS"),
        ({"rootVolume": {"throughput": 1000}}, "Write iops: 4000, or throughput: 750 at most"),
        ({"rootVolume": {"throughput": 2001}}, "2000"),
        ({"rootVolume": {"type": "io2", "iops": 9000, "throughput": 500}}, "a setting of gp3"),
        ({"rootVolume": {"type": "gp2", "iops": 3000}}, "EBS sets the iops of gp2 itself"),
        (
            {"taints": [{"key": "a", "effect": "NO_SCHEDULE"}]},
            "'NoSchedule', 'PreferNoSchedule' or 'NoExecute'",
        ),
        (
            {"accelerator": None, "instanceTypes": ["m7i.xlarge"], "localCache": True},
            "m7i.xlarge has none",
        ),
    ],
)
def test_a_fault_of_a_pool_says_what_is_allowed(fields, said):
    assert said in fault(**fields)


@pytest.mark.parametrize(
    ("volume", "ebs"),
    [
        ({"type": "io2", "iops": 20_000}, {"volumeType": "io2", "iops": 20_000}),
        ({"type": "io1", "iops": 100}, {"volumeType": "io1", "iops": 100}),
        (
            {"iops": 6000, "throughput": 1000},
            {"volumeType": "gp3", "iops": 6000, "throughput": 1000},
        ),
        ({"throughput": 750}, {"volumeType": "gp3", "throughput": 750}),
        ({}, {"volumeType": "gp3"}),
    ],
)
def test_a_root_volume_has_the_performance_that_the_stack_states(volume, ebs):
    (disk,) = template(pool(rootVolume=volume))["blockDeviceMappings"]
    assert {
        key: value
        for key, value in disk["ebs"].items()
        if key in ("volumeType", "iops", "throughput")
    } == ebs


def test_bottlerocket_keeps_a_small_disk_for_its_system():
    volume = {"type": "io2", "iops": 20_000}
    system, images = template(pool(rootVolume=volume, amiType="BOTTLEROCKET_x86_64_NVIDIA"))[
        "blockDeviceMappings"
    ]
    assert (system["ebs"]["volumeType"], "iops" in system["ebs"]) == ("gp3", False)
    assert (images["ebs"]["volumeType"], images["ebs"]["iops"]) == ("io2", 20_000)
