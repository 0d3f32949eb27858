"""Adopted and created clusters, and the provider built from them."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import grpc
import pytest
from pydantic import ValidationError

from components.cluster.aws_api import aws_api
from components.cluster.eks_network import blocks
from components.cluster.eks_spec import EksCluster
from rehearsal.engine import stand_ins
from rehearsal.engine.errors import ProgramFailed
from rehearsal.engine.recording import Recording
from tests.unit.aws.rig import ADOPTED, BUCKET, CREATED, L40S, SYSTEM, _Known, declared, model, upstream

POOLS = {"l40s": L40S, "system": SYSTEM}
STORAGE = {"weights": {**BUCKET, "create": {}}, "shared": {"kind": "efs"}}
GATEWAY = {"host": "llm.example", "tls": {"secretName": "tls"}, "ingressClassName": "alb"}


@pytest.fixture(scope="module")
def created() -> Recording:
    models = {"llama": model(preheat={"into": "shared"}), "streamed": model()}
    return declared(cluster=CREATED, nodePools=POOLS, storage=STORAGE, models=models, gateway=GATEWAY)


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
    made = declared(cluster={**CREATED, "create": open_to}, nodePools=POOLS).one("aws:eks/cluster:Cluster").inputs["vpcConfig"]
    assert (made["endpointPublicAccess"], made["publicAccessCidrs"]) == (True, ["198.51.100.0/24"])
    assert "large part of the internet" in cluster_fault(create={**CREATED["create"], "publicAccessCidrs": ["0.0.0.0/0"]})


def test_network_policies_are_enforced_and_the_value_is_a_string(created):
    assert json.loads(addons(created)["vpc-cni"].inputs["configurationValues"]) == {"enableNetworkPolicy": "true"}


def test_the_efs_driver_comes_only_with_an_efs_store(created):
    assert sorted(addons(created)) == ["aws-efs-csi-driver", "coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"]
    without = declared(cluster=CREATED, nodePools=POOLS)
    assert "aws-efs-csi-driver" not in addons(without)


def test_nodes_wait_for_network_and_routes_and_pods_of_addons_wait_for_nodes(created):
    [group] = [each for each in created.of_type("aws:eks/nodeGroup:NodeGroup") if each.name == "system-on-demand"]
    before = upstream(created, group.urn)
    assert {addons(created)[name].urn for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")} <= before
    private = [each for each in created.of_type("aws:ec2/routeTableAssociation:RouteTableAssociation") if "public" not in each.name]
    assert {each.urn for each in private} <= before
    assert group.urn in upstream(created, addons(created)["coredns"].urn)


def test_administrators_get_an_entry_and_the_policy_that_goes_with_it(created):
    entry = created.one("aws:eks/accessEntry:AccessEntry").inputs
    granted = created.one("aws:eks/accessPolicyAssociation:AccessPolicyAssociation").inputs
    assert entry["principalArn"] == granted["principalArn"] == "arn:aws:iam::111122223333:role/people"


def test_principals_whose_names_look_alike_get_an_entry_each():
    admins = [f"arn:aws:iam::111122223333:{each}" for each in ("role/a-b", "role/a/b", "user/a-b")]
    recording = declared(cluster={**CREATED, "create": {**CREATED["create"], "admins": admins}}, nodePools=POOLS)
    assert sorted(each.inputs["principalArn"] for each in recording.of_type("aws:eks/accessEntry:AccessEntry")) == sorted(admins)


ADMIN = "arn:aws:iam::111122223333:role/team/people"


@pytest.mark.parametrize(
    ("asking", "told"),
    [
        ("arn:aws:sts::111122223333:assumed-role/people/session", None),
        ("arn:aws:sts::111122223333:assumed-role/ci/run-17", "add arn:aws:iam::111122223333:role/ci"),
        ("arn:aws:sts::999999999999:assumed-role/people/session", "add arn:aws:iam::999999999999:role/people"),
        ("arn:aws:iam::111122223333:user/people", "add arn:aws:iam::111122223333:user/people"),
        ("arn:aws:iam::111122223333:root", "arn:aws:iam::111122223333:root runs this and is none of them"),
    ],
)
def test_whoever_runs_a_stack_that_will_refuse_them_is_told_before_the_cluster_is_made(asking, told, monkeypatch):
    class Asked(_Known):
        def invoke(self, token: str, arguments: Any) -> Any:
            if token.endswith("getCallerIdentity"):
                return {"arn": asking}
            return super().invoke(token, arguments)

    heard: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", heard.append)
    made = declared(Asked(), cluster={**CREATED, "create": {**CREATED["create"], "admins": [ADMIN]}}, nodePools=POOLS)
    assert made.one("aws:eks/cluster:Cluster").inputs["accessConfig"]["bootstrapClusterCreatorAdminPermissions"] is False
    assert [told in each for each in heard] == ([] if told is None else [True]), heard


# The most characters that AWS takes, of the resources whose names Pulumi makes: the name here, a hyphen and seven digits.
LONGEST_NAMES = {
    "aws:ec2/launchTemplate:LaunchTemplate": 128,
    "aws:ec2/placementGroup:PlacementGroup": 255,
    "aws:ec2/securityGroup:SecurityGroup": 255,
    "aws:eks/nodeGroup:NodeGroup": 63,
    "aws:iam/role:Role": 64,
    "aws:iam/rolePolicy:RolePolicy": 128,
}


def test_the_longest_names_that_a_stack_may_use_fit_what_aws_takes():
    pool, store, name = "p" * 63, "s" * 63, "m" * 46
    pools = {pool: {**L40S, "capacityTypes": ["SPOT", "ON_DEMAND"]}, "system": SYSTEM}
    models = {each: model(pool=pool, weights={"store": store, "path": "x"}) for each in (name, name[:-1] + "n")}
    models["q" * 46] = model(pool=pool, weights={"store": store, "path": "x"}, preheat={"into": "shared"})
    storage = {store: {**BUCKET, "create": {}}, "shared": {"kind": "efs"}}
    recording = declared(cluster={**CREATED, "name": "c" * 100}, nodePools=pools, storage=storage, models=models)
    named = [each for each in recording if each.type in LONGEST_NAMES and "name" not in each.inputs]
    assert len(named) > 15
    assert [each.urn for each in named if len(each.name) + 8 > LONGEST_NAMES[each.type]] == []
    unknown = {each.type for each in recording if each.type.startswith("aws:iam/")} - set(LONGEST_NAMES)
    assert unknown == {"aws:iam/rolePolicyAttachment:RolePolicyAttachment"}, "a resource whose name has a limit too"


@pytest.mark.parametrize("cluster", [CREATED, ADOPTED])
def test_the_kubeconfig_holds_no_token_and_asks_for_one(cluster):
    provider = declared(cluster=cluster, nodePools=POOLS).one("pulumi:providers:kubernetes").inputs
    config = json.loads(provider["kubeconfig"])
    [user] = config["users"]
    assert list(user["user"]) == ["exec"]
    assert user["user"]["exec"]["args"][:4] == ["eks", "get-token", "--cluster-name", cluster["name"]]
    assert config["clusters"][0]["cluster"]["server"].startswith("https://")
    assert "token" not in user["user"]
    assert "insecure-skip-tls-verify" not in json.dumps(config)


def test_an_adopted_cluster_is_looked_up_and_nothing_of_it_is_changed():
    recording = declared()
    kinds = {each.type for each in recording if each.type.startswith("aws:eks/")}
    assert kinds == {"aws:eks/nodeGroup:NodeGroup"}
    group = recording.one("aws:eks/nodeGroup:NodeGroup").inputs
    assert group["subnetIds"] == ["subnet-00000000000000001", "subnet-00000000000000002"]
    attached = [each.inputs["policyArn"] for each in recording.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")]
    assert any("CNI" in each for each in attached)
    own = declared(cluster={**ADOPTED, "cniUsesNodeRole": False})
    assert not any("CNI" in each.inputs["policyArn"] for each in own.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment"))


class Refusal(grpc.RpcError):
    """What an engine answers when a provider's function fails."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return "couldn't find resource"


class Missing(_Known):
    """An AWS that lacks what one look-up asks for."""

    def __init__(self, function: str) -> None:
        self._function = function

    def invoke(self, token: str, arguments: Any) -> Any:
        if token.endswith(self._function):
            raise Refusal
        return super().invoke(token, arguments)


EXISTING = {"kind": "efs", "fileSystemId": "fs-01234567", "accessPointId": "fsap-01234567"}


@pytest.mark.parametrize(
    ("function", "said", "remedy"),
    [
        ("getCluster", "cluster.name: 'shared' was not found (", "cluster.create"),
        ("getSubnet", "cluster.subnets.us-east-1a: 'subnet-0000000a' was not found (", "look in the cluster's region and account"),
        ("getFileSystem", "storage.shared.fileSystemId: 'fs-01234567' was not found (", "leave both ids out to create one"),
        ("getAccessPoint", "storage.shared.accessPointId: 'fsap-01234567' was not found (", "leave both ids out to create one"),
    ],
)
def test_an_adopted_thing_that_does_not_exist_is_reported_with_the_key_that_names_it(function, said, remedy):
    with pytest.raises(ProgramFailed) as caught:
        declared(Missing(function), cluster={**ADOPTED, "subnets": {"us-east-1a": "subnet-0000000a"}}, storage={"shared": EXISTING})
    assert said in str(caught.value)
    assert "couldn't find resource" in str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize("cluster", [ADOPTED, {**CREATED, **created_with(zones=None)}])
def test_a_subnet_of_another_zone_is_refused(cluster):
    class Elsewhere(_Known):
        def invoke(self, token: str, arguments: Any) -> Any:
            return {**super().invoke(token, arguments), **({"availabilityZone": "us-east-1b"} if "getSubnet" in token else {})}

    subnets = {"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b"}
    with pytest.raises(ProgramFailed) as caught:
        declared(Elsewhere(), cluster={**cluster, "subnets": subnets}, nodePools=POOLS)
    assert "cluster.subnets.us-east-1a: 'subnet-0000000a' is in us-east-1b; name a subnet of us-east-1a" in str(caught.value)


def test_an_access_point_of_another_file_system_is_refused():
    class Other(_Known):
        def invoke(self, token: str, arguments: Any) -> Any:
            return {**super().invoke(token, arguments), **({"fileSystemId": "fs-89abcdef"} if "getAccessPoint" in token else {})}

    with pytest.raises(ProgramFailed) as caught:
        declared(Other(), storage={"shared": EXISTING})
    assert "storage.shared.accessPointId: 'fsap-01234567' belongs to fs-89abcdef; name one of fs-01234567" in str(caught.value)


def test_an_adopted_file_system_is_mounted_by_its_access_point_once_it_is_found():
    volume = declared(storage={"shared": EXISTING}).one("kubernetes:core/v1:PersistentVolume").inputs["spec"]
    assert volume["csi"]["volumeHandle"] == "fs-01234567::fsap-01234567"


def test_credentials_of_another_account_are_refused_by_the_provider():
    provider = declared(cluster={**ADOPTED, "account": "111122223333"}).one("pulumi:providers:aws").inputs
    assert json.loads(provider["allowedAccountIds"]) == ["111122223333"]


@pytest.mark.parametrize("zones", [2, 3, 6])
@pytest.mark.parametrize("cidr", ["10.64.0.0/16", "172.16.32.0/19", "192.168.16.0/20"])
def test_subnets_are_inside_the_network_and_never_overlap(cidr, zones):
    private, public = blocks(cidr, zones)
    networks = [ipaddress.IPv4Network(each) for each in (*private, *public)]
    assert len(networks) == 2 * zones
    assert all(each.subnet_of(ipaddress.IPv4Network(cidr)) for each in networks)
    assert not any(one.overlaps(other) for index, one in enumerate(networks) for other in networks[index + 1 :])
    # EKS wants room for its own interfaces, and AWS no subnet smaller than /28.
    assert all(each.prefixlen <= 28 for each in networks)


def test_a_nat_gateway_in_each_zone_or_a_single_one():
    for nat, count in (("perZone", 2), ("single", 1)):
        made = declared(cluster={**CREATED, "create": {**CREATED["create"], "nat": nat}}, nodePools=POOLS)
        assert len(made.of_type("aws:ec2/natGateway:NatGateway")) == count


def test_given_subnets_take_the_place_of_a_network():
    cluster = {
        **CREATED,
        "create": {"kubernetesVersion": "1.34", "admins": CREATED["create"]["admins"]},
        "subnets": {"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b"},
    }
    recording = declared(cluster=cluster, nodePools=POOLS)
    assert recording.of_type("aws:ec2/vpc:Vpc") == []
    assert recording.one("aws:eks/cluster:Cluster").inputs["vpcConfig"]["subnetIds"] == ["subnet-0000000a", "subnet-0000000b"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"region": "us-east-9"}, "did you mean 'us-east-2'"),
        ({"name": "a b"}, "name"),
        (created_with(kubernetesVersion="1.21"), "use 1.32 to 1.36"),
        (created_with(kubernetesVersion="1.34.2"), "without a patch; use 1.32 to 1.36"),
        (created_with(zones=None), "needs either create.zones"),
        (created_with(zones=["us-east-1a"]), "at least 2"),
        (created_with(zones=["us-east-1a", "us-east-1a"]), "zones names us-east-1a more than once"),
        (created_with(zones=["us-east-1a", "eu-west-1a"]), "zone eu-west-1a is not in region us-east-1"),
        (created_with(zones=["us-east-1a", "us-east-1-bos-1a"]), "us-east-1-bos-1a is a local zone"),
        (created_with(admins=[]), "admins"),
        ({"create": {**CREATED["create"], "admins": ["arn:aws:iam::111122223333:role/a"] * 2}}, "role/a more than once"),
        ({"create": {**CREATED["create"], "admins": ["arn:aws:sts::111122223333:assumed-role/a/b"]}}, "admins.0"),
        ({"create": {**CREATED["create"], "cidr": "10.0.0.0/24"}}, "pods need /20 at least"),
        ({"create": {**CREATED["create"], "cidr": "8.8.0.0/16"}}, "is no private network"),
        ({"account": "999999999999"}, "which is not of account 999999999999"),
        ({"subnets": {"us-east-1a": "subnet-0000000a"}}, "write one of them"),
    ],
)
def test_a_fault_of_a_cluster_says_what_is_allowed(fields, said):
    assert said in cluster_fault(**fields)


def test_the_longest_chain_of_dependencies_does_not_grow_with_the_models():
    def depth(count: int) -> int:
        storage = {"weights": BUCKET, "shared": {"kind": "efs"}}
        models = {f"m{n}": model(preheat={"into": "shared"}) for n in range(count)}
        recording = declared(cluster=CREATED, nodePools=POOLS, storage=storage, models=models)
        by_urn = {each.urn: each for each in recording}
        longest: dict[str, int] = {}
        for each in recording:
            before = [longest[other] for other in (*each.dependencies, each.provider) if other in by_urn and other in longest]
            longest[each.urn] = 1 + max(before, default=0)
        return max(longest.values())

    # From the VPC by its NAT gateways, routes and nodes to a server; what recurses along it fails near a thousand.
    assert depth(12) == depth(1) <= 18


def test_stand_ins_never_look_like_something_that_exists():
    found = stand_ins.answer("aws:eks/getCluster:getCluster", {"name": "shared"})
    assert found is not None
    assert found["endpoint"].endswith(".invalid")
    assert ":000000000000:" in found["arn"]


@pytest.mark.parametrize(("more", "prefix"), [({}, "acme-weights/"), ({"prefix": "weights/"}, "weights/"), ({"prefix": ""}, "")])
def test_a_created_bucket_logs_its_requests_where_it_is_told_to(more, prefix):
    storage = {"weights": {**BUCKET, "create": {"accessLogs": {"bucket": "acme-logs", **more}}}}
    recording = declared(cluster=CREATED, nodePools=POOLS, storage=storage)
    logs = recording.one("aws:s3/bucketLogging:BucketLogging")
    assert (logs.inputs["bucket"], logs.inputs["targetBucket"], logs.inputs["targetPrefix"]) == ("acme-weights", "acme-logs", prefix)
    assert logs.options.protect
