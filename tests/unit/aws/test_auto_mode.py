"""Clusters with EKS Auto Mode: what is created at AWS and inside the cluster, which pools stay node
groups, and what is rejected.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from inferplan.components.platforms.aws.auto_mode import FAMILIES
from inferplan.components.platforms.aws.aws_api import aws_api
from inferplan.pulumi_engine.recording import Recording
from inferplan.rehearsal.toolchain.crds import OWN
from inferplan.stackfile.checks import check
from tests.unit.aws.rig import (
    ADOPTED,
    AUTOMATIC,
    BUCKET,
    L40S,
    SYSTEM,
    declared,
    document,
    model,
    settings,
    upstream,
)

POOLS = {
    "l40s": {
        **L40S,
        "capacityTypes": ["SPOT", "ON_DEMAND"],
        "size": {"min": 1, "max": 4},
        "localCache": True,
    },
    "system": SYSTEM,
}
BLOCK = {
    "provider": "eks",
    "accelerator": "nvidia-h100",
    "capacityTypes": ["CAPACITY_BLOCK"],
    "capacityReservation": {"id": "cr-0123456789abcdef0", "zone": "us-east-1b"},
    "size": {"max": 2},
}
ALB = {
    "certificateArn": (
        "arn:aws:acm:us-east-1:111122223333:certificate/3f1d9f5e-2c1b-4e0a-9a43-7d0e5b6c8a21"
    )
}
CLUSTER = "aws:eks/cluster:Cluster"
GROUP = "aws:eks/nodeGroup:NodeGroup"
NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
NODE_CLASS = "kubernetes:eks.amazonaws.com/v1:NodeClass"


@pytest.fixture(scope="module")
def automatic() -> Recording:
    gateway = {"host": "llm.example", "ingressClassName": "alb", "alb": ALB}
    storage = {"weights": {**BUCKET, "create": {}}, "shared": {"kind": "efs"}}
    models = {"llama": model(preheat={"into": "shared"})}
    return declared(
        cluster=AUTOMATIC, nodePools=POOLS, storage=storage, models=models, gateway=gateway
    )


@pytest.fixture(scope="module")
def mixed() -> Recording:
    return declared(cluster=AUTOMATIC, nodePools={**POOLS, "h100": BLOCK})


def named(recording: Recording, type_: str) -> dict[str, Any]:
    return {each.inputs["metadata"]["name"]: each for each in recording.of_type(type_)}


def requirements(pool: Any) -> dict[str, list[str]]:
    listed = pool.inputs["spec"]["template"]["spec"]["requirements"]
    assert {each["operator"] for each in listed} == {"In"}
    return {each["key"]: each["values"] for each in listed}


def errors(**parts: Any) -> dict[str, str]:
    return {
        ".".join(map(str, each.path)): each.message
        for each in check(settings(**parts), has_key_seed=True)
    }


def test_a_created_cluster_has_the_three_capabilities_and_the_rights_for_them(automatic):
    made = automatic.one(CLUSTER).inputs
    assert made["computeConfig"] == {"enabled": True}
    assert made["storageConfig"] == {"blockStorage": {"enabled": True}}
    assert made["kubernetesNetworkConfig"] == {"elasticLoadBalancing": {"enabled": True}}
    assert made["bootstrapSelfManagedAddons"] is False
    attached = {
        each.inputs["policyArn"].rpartition("/")[2]
        for each in automatic.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    }
    of_cluster = {"Cluster", "Compute", "BlockStorage", "LoadBalancing", "Networking"}
    assert attached == {
        *(f"AmazonEKS{each}Policy" for each in of_cluster),
        "AmazonEKSWorkerNodeMinimalPolicy",
        "AmazonEC2ContainerRegistryPullOnly",
    }
    (role,) = [each for each in automatic.of_type("aws:iam/role:Role") if each.name == "prod"]
    assert document(role.inputs["assumeRolePolicy"])["Statement"][0]["Action"] == [
        "sts:AssumeRole",
        "sts:TagSession",
    ]


def test_it_is_the_default_of_a_created_cluster_and_only_there():
    unset = {key: value for key, value in AUTOMATIC.items() if key != "autoMode"}
    for cluster, expected in (
        (unset, "autoMode"),
        (ADOPTED, None),
        ({**ADOPTED, "autoMode": True}, "autoMode"),
    ):
        assert settings(cluster=cluster, nodePools=POOLS).node_pools["l40s"].nodes == expected


def test_nodes_of_the_pools_may_join_by_an_access_entry_of_their_role(automatic):
    (entry,) = [
        each
        for each in automatic.of_type("aws:eks/accessEntry:AccessEntry")
        if each.inputs.get("type") == "EC2"
    ]
    policies = {
        each.inputs["principalArn"]: each.inputs["policyArn"]
        for each in automatic.of_type("aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
    }
    assert policies[entry.inputs["principalArn"]].endswith(
        "cluster-access-policy/AmazonEKSAutoNodePolicy"
    )
    assert entry.urn in upstream(automatic, named(automatic, NODE_POOL)["l40s-auto"].urn)


def test_a_pool_is_a_static_and_a_dynamic_node_pool_within_its_size(automatic):
    pools = named(automatic, NODE_POOL)
    assert set(pools) == {"l40s-static", "l40s-auto", "system-static", "system-auto"}
    static, dynamic = pools["l40s-static"], pools["l40s-auto"]
    assert static.inputs["spec"]["replicas"] == 1
    assert set(static.inputs["spec"]["limits"]) == {"nodes"}
    assert dynamic.inputs["spec"]["limits"] == {"nodes": "3", "nvidia.com/gpu": "3"}
    assert requirements(dynamic) == {
        "node.kubernetes.io/instance-type": ["g6e.4xlarge", "g6e.8xlarge"],
        "karpenter.sh/capacity-type": ["spot", "on-demand"],
    }
    assert requirements(static)["karpenter.sh/capacity-type"] == ["on-demand"]
    assert pools["system-auto"].inputs["spec"]["limits"]["cpu"] == "8"


def test_consolidation_ends_empty_nodes_only(automatic):
    for pool in automatic.of_type(NODE_POOL):
        assert pool.inputs["spec"]["disruption"] == {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "10m",
            "budgets": [{"nodes": "1"}],
        }


def test_nodes_have_the_labels_and_taints_that_pods_select_by(automatic):
    template = named(automatic, NODE_POOL)["l40s-auto"].inputs["spec"]["template"]
    assert template["metadata"]["labels"] == {"inferplan.dev/pool": "l40s"}
    assert template["spec"]["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    ]
    assert template["spec"]["nodeClassRef"] == {
        "group": "eks.amazonaws.com",
        "kind": "NodeClass",
        "name": "l40s-auto",
    }


def test_a_node_class_names_role_subnets_groups_and_a_disk_smaller_than_a_local_cache(automatic):
    spec = named(automatic, NODE_CLASS)["l40s-auto"].inputs["spec"]
    (role,) = [each for each in automatic.of_type("aws:iam/role:Role") if each.name == "auto-nodes"]
    assert spec["role"] == role.name or spec["role"].startswith("auto-nodes")
    assert "/" not in spec["role"]
    assert [set(each) for each in spec["subnetSelectorTerms"]] == [{"id"}, {"id"}]
    assert len(spec["securityGroupSelectorTerms"]) == 2
    assert spec["ephemeralStorage"] == {"size": "40Gi"}


def test_a_pool_in_one_zone_has_the_subnet_of_that_zone():
    recording = declared(
        cluster=AUTOMATIC, nodePools={**POOLS, "l40s": {**L40S, "zones": ["us-east-1b"]}}
    )
    assert len(named(recording, NODE_CLASS)["l40s-auto"].inputs["spec"]["subnetSelectorTerms"]) == 1
    assert requirements(named(recording, NODE_POOL)["l40s-auto"])[
        "topology.kubernetes.io/zone"
    ] == ["us-east-1b"]


def test_what_auto_mode_has_built_in_is_not_installed(automatic):
    assert {each.inputs["addonName"] for each in automatic.of_type("aws:eks/addon:Addon")} == {
        "aws-efs-csi-driver"
    }
    assert not [each for each in automatic if each.type.endswith((":DaemonSet", ":RuntimeClass"))]
    assert automatic.of_type(GROUP) == automatic.of_type("aws:ec2/launchTemplate:LaunchTemplate")


def test_the_efs_driver_waits_for_the_node_pools_or_it_would_have_no_node(automatic):
    before = upstream(automatic, automatic.one("aws:eks/addon:Addon").urn)
    assert {
        named(automatic, NODE_POOL)[name].urn for name in ("system-static", "system-auto")
    } <= before


def test_workloads_are_deleted_before_the_node_pools(automatic):
    for workload in [
        each for each in automatic if each.type.endswith((":Deployment", ":Ingress", ":Job"))
    ]:
        assert {each.urn for each in automatic.of_type(NODE_POOL)} <= upstream(
            automatic, workload.urn
        )


def test_auto_mode_enforces_network_policies_and_serves_dns_by_address(automatic):
    config = named(automatic, "kubernetes:core/v1:ConfigMap")["amazon-vpc-cni"].inputs
    assert config["data"] == {"enable-network-policy-controller": "true"}
    assert config["metadata"]["namespace"] == "kube-system"
    peers = named(automatic, "kubernetes:networking.k8s.io/v1:NetworkPolicy")["allow-dns"].inputs[
        "spec"
    ]["egress"][0]["to"]
    assert [each["ipBlock"]["cidr"] for each in peers if "ipBlock" in each] == [
        "172.20.0.10/32",
        "10.100.0.10/32",
    ]


def test_dns_of_an_existing_cluster_is_at_the_address_of_its_services():
    recording = declared(cluster={**ADOPTED, "autoMode": True}, nodePools=POOLS)
    peers = named(recording, "kubernetes:networking.k8s.io/v1:NetworkPolicy")["allow-dns"].inputs[
        "spec"
    ]["egress"][0]["to"]
    assert [each["ipBlock"]["cidr"] for each in peers if "ipBlock" in each] == ["172.20.0.10/32"]
    assert not recording.of_type(CLUSTER)
    assert set(named(recording, NODE_POOL)) == {
        "l40s-static",
        "l40s-auto",
        "system-static",
        "system-auto",
    }
    assert "amazon-vpc-cni" not in named(recording, "kubernetes:core/v1:ConfigMap")


def test_the_gateway_s_load_balancer_is_that_of_auto_mode(automatic):
    (ingress_class,) = automatic.of_type("kubernetes:networking.k8s.io/v1:IngressClass")
    assert ingress_class.inputs["metadata"]["name"] == "alb"
    assert ingress_class.inputs["spec"] == {"controller": "eks.amazonaws.com/alb"}
    namespace = named(automatic, "kubernetes:core/v1:Namespace")["inference"].inputs
    assert (
        namespace["metadata"]["labels"]["eks.amazonaws.com/pod-readiness-gate-inject"] == "enabled"
    )
    nlb = {"host": "llm.example", "exposure": "loadBalancer", "nlb": ALB}
    for choice, service_class in (
        ({}, "eks.amazonaws.com/nlb"),
        ({"loadBalancerController": "existing"}, "service.k8s.aws/nlb"),
    ):
        recording = declared(cluster={**AUTOMATIC, **choice}, nodePools=POOLS, gateway=nlb)
        (service,) = [
            each
            for each in recording.of_type("kubernetes:core/v1:Service")
            if each.inputs["spec"].get("type") == "LoadBalancer"
        ]
        assert service.inputs["spec"]["loadBalancerClass"] == service_class


def test_a_capacity_block_stays_a_node_group_with_the_add_ons_that_it_needs(mixed):
    assert [each.name for each in mixed.of_type(GROUP)] == ["h100-capacity-block"]
    expected = {"vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns"}
    assert {each.inputs["addonName"] for each in mixed.of_type("aws:eks/addon:Addon")} >= expected
    assert "amazon-vpc-cni" not in named(mixed, "kubernetes:core/v1:ConfigMap")
    (plugin,) = [each for each in mixed if each.type.endswith(":DaemonSet")]
    assert plugin.inputs["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["h100"]
    roles = {each.inputs["nodeRoleArn"] for each in mixed.of_type(GROUP)}
    entries = {
        each.inputs["principalArn"] for each in mixed.of_type("aws:eks/accessEntry:AccessEntry")
    }
    assert not roles & entries, "EKS creates the entry of a node group's role itself"


def test_a_capacity_block_may_run_in_auto_mode_if_told_to():
    recording = declared(
        cluster=AUTOMATIC, nodePools={**POOLS, "h100": {**BLOCK, "nodes": "autoMode"}}
    )
    assert not recording.of_type(GROUP)
    assert named(recording, NODE_CLASS)["h100-auto"].inputs["spec"][
        "capacityReservationSelectorTerms"
    ] == [{"id": "cr-0123456789abcdef0"}]
    assert requirements(named(recording, NODE_POOL)["h100-auto"])["karpenter.sh/capacity-type"] == [
        "reserved"
    ]


def test_an_on_demand_reservation_in_auto_mode_is_the_only_capacity():
    reserved = {
        **L40S,
        "instanceTypes": ["g6e.4xlarge"],
        "capacityReservation": BLOCK["capacityReservation"],
        "nodes": "autoMode",
    }
    recording = declared(cluster=AUTOMATIC, nodePools={**POOLS, "l40s": reserved})
    assert requirements(named(recording, NODE_POOL)["l40s-auto"])["karpenter.sh/capacity-type"] == [
        "reserved"
    ]


def test_a_system_pool_may_start_empty_since_auto_mode_adds_its_nodes():
    assert errors(cluster=AUTOMATIC, nodePools={"system": {**SYSTEM, "size": {"max": 3}}}) == {}


GAUDI = {
    "provider": "eks",
    "accelerator": "gaudi-1",
    "amiId": "ami-0123456789abcdef0",
    "size": {"max": 2},
}
H100 = {
    "provider": "eks",
    "accelerator": "nvidia-h100",
    "instanceTypes": ["p5.48xlarge"],
    "zones": ["us-east-1a"],
    "size": {"max": 2},
}


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (GAUDI, "dl1"),
        ({**H100, "efa": True}, "huge pages that EFA needs"),
        ({**H100, "placementGroup": True}, "placement groups"),
        ({**L40S, "amiType": "BOTTLEROCKET_x86_64_NVIDIA"}, "selects the image"),
        ({**L40S, "hugepages2Mi": "2Gi"}, "huge pages"),
        ({**L40S, "rootVolume": {"type": "io2", "iops": 4000}}, "gp3"),
        ({**L40S, "update": {"strategy": "MINIMAL"}}, "replaces nodes"),
        ({**L40S, "size": {"desired": 1, "max": 2}}, "number of nodes"),
    ],
)
def test_a_pool_that_auto_mode_cannot_carry_is_a_node_group_and_an_error_if_told_otherwise(
    pool, reason
):
    pools = {"card": pool, "system": SYSTEM}
    assert settings(cluster=AUTOMATIC, nodePools=pools).node_pools["card"].nodes == "nodeGroup"
    message = errors(cluster=AUTOMATIC, nodePools={**pools, "card": {**pool, "nodes": "autoMode"}})[
        "nodePools.card.nodes"
    ]
    assert reason in message
    assert "nodes: nodeGroup" in message


def test_a_store_in_a_directory_of_the_nodes_keeps_their_pool_a_node_group():
    store = {"kind": "nodeDisk", "pool": "l40s", "path": "/mnt/models", "capacity": "100Gi"}
    assert (
        settings(cluster=AUTOMATIC, nodePools=POOLS, storage={"disks": store})
        .node_pools["l40s"]
        .nodes
        == "nodeGroup"
    )


def test_auto_mode_without_a_cluster_that_has_it_is_an_error():
    found = errors(nodePools={"l40s": {**L40S, "nodes": "autoMode"}})
    assert found["nodePools.l40s.nodes"].startswith("autoMode: the cluster has no EKS Auto Mode")


def test_a_pool_may_be_a_node_group_by_choice():
    recording = declared(
        cluster=AUTOMATIC, nodePools={**POOLS, "l40s": {**POOLS["l40s"], "nodes": "nodeGroup"}}
    )
    assert {each.name for each in recording.of_type(GROUP)} == {"l40s-spot", "l40s-on-demand"}


def test_families_of_auto_mode_exist_at_ec2():
    assert {name.partition(".")[0] for name in aws_api().instance_types} >= FAMILIES


def test_the_definition_of_node_classes_has_every_field_that_pools_declare(automatic):
    definition = yaml.safe_load((OWN / "nodeclasses.eks.amazonaws.com.yaml").read_text())
    known = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"
    ]
    for each in automatic.of_type(NODE_CLASS):
        assert set(each.inputs["spec"]) <= set(known)
