"""Adopted and created clusters, and the provider built from them."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.platforms.aws.aws_api import aws_api
from inferplan.components.platforms.aws.cluster_spec import EksCluster
from inferplan.components.platforms.aws.network import blocks
from inferplan.pulumi_engine.providers.aws import answer
from inferplan.pulumi_engine.recording import Recording
from tests.unit.aws.rig import (
    ADOPTED,
    BUCKET,
    CREATED,
    L40S,
    SYSTEM,
    declared,
    model,
    settings,
    upstream,
)

POOLS = {"l40s": L40S, "system": SYSTEM}
STORAGE = {"weights": {**BUCKET, "create": {}}, "shared": {"kind": "efs"}}
GATEWAY = {"host": "llm.example", "tls": {"secretName": "tls"}, "ingressClassName": "alb"}


@pytest.fixture(scope="module")
def created() -> Recording:
    models = {"llama": model(preheat={"into": "shared"}), "streamed": model()}
    return declared(
        cluster=CREATED, nodePools=POOLS, storage=STORAGE, models=models, gateway=GATEWAY
    )


def cluster_fault(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        EksCluster.model_validate({**CREATED, **fields})
    return str(caught.value)


def created_with(**fields: Any) -> dict[str, Any]:
    return {"create": {**CREATED["create"], **fields}}


def addons(recording: Recording) -> dict[str, Any]:
    return {each.inputs["addonName"]: each for each in recording.of_type("aws:eks/addon:Addon")}


def test_a_created_cluster_encrypts_secrets_logs_everything_and_is_private(created):
    made = created.one("aws:eks/cluster:Cluster").inputs
    assert made["encryptionConfig"]["resources"] == ["secrets"]
    assert made["encryptionConfig"]["provider"]["keyArn"].startswith("arn:aws:kms:")
    assert sorted(made["enabledClusterLogTypes"]) == sorted(aws_api().log_types)
    assert made["vpcConfig"]["endpointPrivateAccess"] is True
    assert made["vpcConfig"]["endpointPublicAccess"] is False
    assert made["accessConfig"]["authenticationMode"] == "API"
    assert len(made["vpcConfig"]["subnetIds"]) == 2


def test_the_api_server_is_public_only_for_named_networks():
    open_to = {**CREATED["create"], "publicAccessCidrs": ["198.51.100.0/24"]}
    made = (
        declared(cluster={**CREATED, "create": open_to}, nodePools=POOLS)
        .one("aws:eks/cluster:Cluster")
        .inputs["vpcConfig"]
    )
    assert (made["endpointPublicAccess"], made["publicAccessCidrs"]) == (True, ["198.51.100.0/24"])
    assert "large part of the internet" in cluster_fault(
        create={**CREATED["create"], "publicAccessCidrs": ["0.0.0.0/0"]}
    )


def test_a_new_vpc_whose_api_server_nobody_can_reach_is_rejected_with_the_remedy():
    def messages(cluster: dict[str, Any]) -> list[str]:
        spec = settings(cluster=cluster, nodePools=POOLS)
        return [
            each.message for each in spec.cluster.errors(spec) if each.path == ("cluster", "create")
        ]

    silent = {key: value for key, value in CREATED["create"].items() if key != "publicAccessCidrs"}
    [message] = messages({**CREATED, "create": silent})
    assert "up would fail after it created the cluster" in message
    assert "curl https://checkip.amazonaws.com" in message
    assert "publicAccessCidrs: []" in message
    assert messages(CREATED) == [], "the person says that the VPC gets connected"
    subnets = {"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b"}
    assert messages({**CREATED, "create": {**silent, "zones": None}, "subnets": subnets}) == [], (
        "such a VPC may be connected already"
    )


def test_a_private_api_server_is_noted_until_a_network_may_reach_it():
    def notes(cluster: dict[str, Any]) -> list[str]:
        spec = settings(cluster=cluster, nodePools=POOLS)
        return [each for each in spec.cluster.notes(spec) if each.startswith("cluster: ")]

    [note] = [each for each in notes(CREATED) if "API server" in each]
    assert "Run up, status and kubectl on a machine that reaches the addresses of its VPC" in note
    for reachable in ({**CREATED, **created_with(publicAccessCidrs=["198.51.100.0/24"])}, ADOPTED):
        assert not any("API server" in each for each in notes(reachable))


def test_network_policies_are_enforced_and_the_value_is_a_string(created):
    assert json.loads(addons(created)["vpc-cni"].inputs["configurationValues"]) == {
        "enableNetworkPolicy": "true"
    }


def test_the_efs_driver_comes_only_with_an_efs_store(created):
    assert sorted(addons(created)) == [
        "aws-efs-csi-driver",
        "coredns",
        "eks-node-monitoring-agent",
        "eks-pod-identity-agent",
        "kube-proxy",
        "vpc-cni",
    ]
    without = declared(cluster=CREATED, nodePools=POOLS)
    assert "aws-efs-csi-driver" not in addons(without)


def test_addons_have_the_versions_and_the_configuration_of_the_stack_file():
    pinned = {
        "vpc-cni": {
            "version": "v1.20.4-eksbuild.2",
            "configuration": {"env": {"WARM_IP_TARGET": "4"}, "enableNetworkPolicy": "false"},
        },
        "coredns": {"configuration": {"replicaCount": 3}},
        "metrics-server": {},
    }
    recording = declared(
        cluster={**CREATED, **created_with(addons=pinned)},
        nodePools={"system": {**SYSTEM, "nodes": "nodeGroup"}},
    )
    found = {name: each.inputs for name, each in addons(recording).items()}
    assert found["vpc-cni"]["addonVersion"] == "v1.20.4-eksbuild.2"
    settings_of_cni = json.loads(found["vpc-cni"]["configurationValues"])
    assert settings_of_cni == {"env": {"WARM_IP_TARGET": "4"}, "enableNetworkPolicy": "true"}, (
        "network policies stay enforced"
    )
    assert json.loads(found["coredns"]["configurationValues"]) == {"replicaCount": 3}
    assert "addonVersion" not in found["coredns"]
    assert "metrics-server" in found
    assert "addons.coredns.version" in cluster_fault(
        **created_with(addons={"coredns": {"version": "1.12"}})
    )


def test_an_addon_that_needs_a_role_gets_it():
    wanted = {"aws-ebs-csi-driver": {}, "amazon-cloudwatch-observability": {}, "metrics-server": {}}
    boundary = "arn:aws:iam::111122223333:policy/limit"
    recording = declared(
        cluster={**CREATED, **created_with(addons=wanted), "permissionsBoundary": boundary},
        nodePools={"system": {**SYSTEM, "nodes": "nodeGroup"}},
    )
    made = addons(recording)
    assert "podIdentityAssociations" not in made["metrics-server"].inputs
    policies = {
        each.inputs["policyArn"].rpartition("/")[2]
        for each in recording.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    }
    assert {
        "AmazonEBSCSIDriverPolicy",
        "CloudWatchAgentServerPolicy",
        "AWSXrayWriteOnlyAccess",
    } <= policies
    roles = recording.of_type("aws:iam/role:Role")
    for addon, account in (
        ("aws-ebs-csi-driver", "ebs-csi-controller-sa"),
        ("amazon-cloudwatch-observability", "cloudwatch-agent"),
    ):
        (association,) = made[addon].inputs["podIdentityAssociations"]
        assert association["serviceAccount"] == account
        (role,) = [each.inputs for each in roles if account in each.inputs["assumeRolePolicy"]]
        assert role["permissionsBoundary"] == boundary
        assert CREATED["name"] in role["assumeRolePolicy"]


@pytest.mark.parametrize(
    ("addon", "message"),
    [
        ("soci", "EKS has no add-on 'soci'"),
        ("aws-ebs-csi", "Did you mean 'aws-ebs-csi-driver'?"),
        ("aws-mountpoint-s3-csi-driver", "It needs a role for its buckets"),
    ],
)
def test_an_addon_that_cannot_work_is_an_error(addon, message):
    assert message in cluster_fault(**created_with(addons={addon: {}}))


def test_an_addon_of_the_marketplace_is_left_to_eks():
    EksCluster.model_validate({**CREATED, **created_with(addons={"kubecost_kubecost": {}})})


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({"aws:team": "search"}, "begins with aws:"),
        ({"AWS:team": "search"}, "begins with aws:"),
        ({"team;x": "search"}, "cannot have"),
        ({"team": "a#b"}, "'#'"),
        ({f"k{each}": "v" for each in range(41)}, "40"),
    ],
)
def test_tags_that_aws_refuses_are_errors(tags, message):
    assert message in cluster_fault(tags=tags)


def test_tags_may_have_the_letters_of_every_language():
    tags = {"équipe:coût/centre": "größe = 3 + 4 @ _x.y-z"}
    assert EksCluster.model_validate({**CREATED, "tags": tags}).tags == tags


def test_nodes_with_accelerators_are_watched_and_repaired_in_a_created_cluster():
    pools = {"l40s": {**L40S, "nodes": "nodeGroup"}, "system": {**SYSTEM, "nodes": "nodeGroup"}}
    recording = declared(cluster=CREATED, nodePools=pools)
    assert "eks-node-monitoring-agent" in addons(recording)
    groups = recording.of_type("aws:eks/nodeGroup:NodeGroup")
    assert {each.name: each.inputs["nodeRepairConfig"] for each in groups} == {
        "l40s-on-demand": {"enabled": True},
        "system-on-demand": {"enabled": True},
    }
    adopted = declared(nodePools={"l40s": L40S}).one("aws:eks/nodeGroup:NodeGroup").inputs
    assert "nodeRepairConfig" not in adopted, "its owner decides"
    asked = (
        declared(nodePools={"l40s": {**L40S, "autoRepair": True}})
        .one("aws:eks/nodeGroup:NodeGroup")
        .inputs
    )
    assert asked["nodeRepairConfig"] == {"enabled": True}


def test_the_release_of_the_node_image_is_pinned_and_fits_the_cluster():
    def errors(release: str) -> list[str]:
        spec = settings(
            cluster=CREATED,
            nodePools={"system": SYSTEM, "l40s": {**L40S, "releaseVersion": release}},
        )
        return [each.message for each in spec.cluster.errors(spec)]

    pinned = {"system": SYSTEM, "l40s": {**L40S, "releaseVersion": "1.34.2-20261112"}}
    group = (
        declared(cluster=CREATED, nodePools=pinned)
        .one("aws:eks/nodeGroup:NodeGroup", "l40s-on-demand")
        .inputs
    )
    assert group["releaseVersion"] == "1.34.2-20261112"
    assert errors("1.34.2-20261112") == []
    assert "is an image for another Kubernetes version than 1.34" in errors("1.35.1-20261112")[0]


def test_a_group_of_accelerators_that_fails_does_not_keep_the_cluster_from_its_dns(created):
    before = upstream(created, addons(created)["coredns"].urn)
    groups = {
        each.name for each in created.of_type("aws:eks/nodeGroup:NodeGroup") if each.urn in before
    }
    assert groups == {"system-on-demand"}


def test_nodes_wait_for_network_and_routes_and_pods_of_addons_wait_for_nodes(created):
    [group] = [
        each
        for each in created.of_type("aws:eks/nodeGroup:NodeGroup")
        if each.name == "system-on-demand"
    ]
    before = upstream(created, group.urn)
    assert {
        addons(created)[name].urn for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
    } <= before
    private = [
        each
        for each in created.of_type("aws:ec2/routeTableAssociation:RouteTableAssociation")
        if "public" not in each.name
    ]
    assert {each.urn for each in private} <= before
    assert group.urn in upstream(created, addons(created)["coredns"].urn)


def test_credentials_of_another_account_are_refused_by_the_provider():
    provider = (
        declared(cluster={**ADOPTED, "account": "111122223333"}).one("pulumi:providers:aws").inputs
    )
    assert json.loads(provider["allowedAccountIds"]) == ["111122223333"]


@pytest.mark.parametrize("zones", [2, 3, 6])
@pytest.mark.parametrize("cidr", ["10.64.0.0/16", "172.16.32.0/19", "192.168.16.0/20"])
def test_subnets_are_inside_the_network_and_never_overlap(cidr, zones):
    private, public = blocks(cidr, zones)
    networks = [ipaddress.IPv4Network(each) for each in (*private, *public)]
    assert len(networks) == 2 * zones
    assert all(each.subnet_of(ipaddress.IPv4Network(cidr)) for each in networks)
    assert not any(
        one.overlaps(other) for index, one in enumerate(networks) for other in networks[index + 1 :]
    )
    # EKS wants room for its own interfaces, and AWS no subnet smaller than /28.
    assert all(each.prefixlen <= 28 for each in networks)


def test_a_nat_gateway_in_each_zone_or_a_single_one():
    for nat, count in (("perZone", 2), ("single", 1)):
        made = declared(
            cluster={**CREATED, "create": {**CREATED["create"], "nat": nat}}, nodePools=POOLS
        )
        assert len(made.of_type("aws:ec2/natGateway:NatGateway")) == count


def test_given_subnets_take_the_place_of_a_network():
    cluster = {
        **CREATED,
        "create": {"kubernetesVersion": "1.34", "admins": CREATED["create"]["admins"]},
        "subnets": {"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b"},
    }
    recording = declared(cluster=cluster, nodePools=POOLS)
    assert recording.of_type("aws:ec2/vpc:Vpc") == []
    assert recording.one("aws:eks/cluster:Cluster").inputs["vpcConfig"]["subnetIds"] == [
        "subnet-0000000a",
        "subnet-0000000b",
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"region": "us-east-9"}, "Did you mean 'us-east-2'"),
        ({"name": "a b"}, "name"),
        (created_with(kubernetesVersion="1.21"), "Use 1.32 to 1.36"),
        (created_with(kubernetesVersion="1.34.2"), "which has no patch number. Use 1.32 to 1.36"),
        (created_with(zones=None), "requires either create.zones"),
        (created_with(zones=["us-east-1a"]), "at least 2"),
        (created_with(zones=["us-east-1a", "us-east-1a"]), "Duplicate entry in zones: us-east-1a"),
        (
            created_with(zones=["us-east-1a", "eu-west-1a"]),
            "Zone eu-west-1a is not in region us-east-1",
        ),
        (
            created_with(zones=["us-east-1a", "us-east-1-bos-1a"]),
            "us-east-1-bos-1a is a local zone",
        ),
        (created_with(admins=[]), "admins"),
        (
            {"create": {**CREATED["create"], "admins": ["arn:aws:iam::111122223333:role/a"] * 2}},
            "Duplicate entry in admins: arn:aws:iam::111122223333:role/a",
        ),
        (
            {
                "create": {
                    **CREATED["create"],
                    "admins": ["arn:aws:sts::111122223333:assumed-role/a/b"],
                }
            },
            "admins.0",
        ),
        ({"create": {**CREATED["create"], "cidr": "10.0.0.0/24"}}, "needs /16 to /20"),
        ({"create": {**CREATED["create"], "cidr": "8.8.0.0/16"}}, "is not a private network"),
        ({"account": "999999999999"}, "which is not in account 999999999999"),
        ({"subnets": {"us-east-1a": "subnet-0000000a"}}, "Set one of them"),
    ],
)
def test_a_fault_of_a_cluster_says_what_is_allowed(fields, said):
    assert said in cluster_fault(**fields)


@pytest.mark.slow
def test_the_longest_chain_of_dependencies_does_not_grow_with_the_models():
    def depth(count: int) -> int:
        storage = {"weights": BUCKET, "shared": {"kind": "efs"}}
        models = {f"m{n}": model(preheat={"into": "shared"}) for n in range(count)}
        recording = declared(cluster=CREATED, nodePools=POOLS, storage=storage, models=models)
        by_urn = {each.urn: each for each in recording}
        longest: dict[str, int] = {}
        for each in recording:
            before = [
                longest[other]
                for other in (*each.dependencies, each.provider)
                if other in by_urn and other in longest
            ]
            longest[each.urn] = 1 + max(before, default=0)
        return max(longest.values())

    # From the VPC by its NAT gateways, routes and nodes to a server; what recurses along it fails
    # near a thousand.
    assert depth(12) == depth(1) <= 20


def test_stand_ins_never_look_like_something_that_exists():
    found = answer("aws:eks/getCluster:getCluster", {"name": "shared"})
    assert found is not None
    assert found["endpoint"].endswith(".invalid")
    assert ":000000000000:" in found["arn"]


@pytest.mark.parametrize(
    ("more", "prefix"),
    [({}, "acme-weights/"), ({"prefix": "weights/"}, "weights/"), ({"prefix": ""}, "")],
)
def test_a_created_bucket_logs_its_requests_where_it_is_told_to(more, prefix):
    storage = {"weights": {**BUCKET, "create": {"accessLogs": {"bucket": "acme-logs", **more}}}}
    recording = declared(cluster=CREATED, nodePools=POOLS, storage=storage)
    logs = recording.one("aws:s3/bucketLogging:BucketLogging")
    assert (logs.inputs["bucket"], logs.inputs["targetBucket"], logs.inputs["targetPrefix"]) == (
        "acme-weights",
        "acme-logs",
        prefix,
    )
    assert logs.options.protect
