"""What a stack adopts at AWS: looked up, left as it is, and told by its key when it is not there."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from inferplan.errors import ProgramFailed
from inferplan.pulumi_engine.values import UNKNOWN, has_unknown
from tests.unit.aws.rig import (
    ADOPTED,
    BUCKET,
    CREATED,
    L40S,
    SYSTEM,
    _Known,
    declared,
    model,
    planned,
)

POOLS = {"l40s": L40S, "system": SYSTEM}


def test_an_adopted_cluster_is_looked_up_and_nothing_of_it_is_changed():
    recording = declared()
    kinds = {each.type for each in recording if each.type.startswith("aws:eks/")}
    assert kinds == {"aws:eks/nodeGroup:NodeGroup"}
    group = recording.one("aws:eks/nodeGroup:NodeGroup").inputs
    assert group["subnetIds"] == ["subnet-00000000000000001", "subnet-00000000000000002"]
    attached = [
        each.inputs["policyArn"]
        for each in recording.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    ]
    assert any("CNI" in each for each in attached)
    own = declared(cluster={**ADOPTED, "cniUsesNodeRole": False})
    assert not any(
        "CNI" in each.inputs["policyArn"]
        for each in own.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    )


SUBNETS = {"us-east-1a": "subnet-0123456789abcdef0", "us-east-1b": "subnet-0123456789abcdef1"}
IN_A_VPC = {**CREATED, "create": {**CREATED["create"], "zones": None}, "subnets": SUBNETS}


def blanks(value: Any, path: str = "") -> list[str]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return ([path] if value is None else []) + [
        each for key, item in items for each in blanks(item, f"{path}.{key}")
    ]


@pytest.mark.parametrize("cluster", [ADOPTED, {**ADOPTED, "subnets": SUBNETS}, IN_A_VPC, CREATED])
def test_a_plan_shows_ids_of_the_stack_file_or_unknowns_never_blanks_or_inventions(cluster):
    recording = planned(cluster=cluster, nodePools={"l40s": L40S, "system": SYSTEM})
    assert {
        each.urn: paths for each in recording if each.custom and (paths := blanks(each.inputs))
    } == {}
    group = recording.one("aws:eks/nodeGroup:NodeGroup", "system-on-demand").inputs
    if "subnets" in cluster:
        assert group["subnetIds"] == list(SUBNETS.values())
    else:
        assert has_unknown(group["subnetIds"])
    assert (
        recording.one("aws:ec2/securityGroup:SecurityGroup", "nodes-pools").inputs["vpcId"]
        is UNKNOWN
    )
    assert (
        UNKNOWN
        in recording.one("aws:ec2/launchTemplate:LaunchTemplate", "system").inputs[
            "vpcSecurityGroupIds"
        ]
    )


class Routed(_Known):
    """An AWS whose VPC has a public route table for the first subnet of the cluster, and a main
    route table that is private or not.
    """

    def __init__(self, *, main: str) -> None:
        self.tables = {
            "rtb-1": {
                "routes": [{"gatewayId": "igw-1"}],
                "associations": [{"subnetId": "subnet-00000000000000001", "main": False}],
            },
            "rtb-2": {
                "routes": [{"gatewayId": main}],
                "associations": [{"subnetId": "", "main": True}],
            },
        }

    def invoke(self, token: str, arguments: Any) -> Any:
        if token.endswith("getRouteTables"):
            return {"ids": list(self.tables)}
        return (
            self.tables[arguments["routeTableId"]]
            if token.endswith("getRouteTable")
            else super().invoke(token, arguments)
        )


def test_nodes_start_in_the_private_subnets_of_an_existing_cluster_which_are_named(monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr("pulumi.info", messages.append)
    recording = declared(Routed(main="local"))
    assert recording.one("aws:eks/nodeGroup:NodeGroup").inputs["subnetIds"] == [
        "subnet-00000000000000002"
    ]
    assert any(
        "private subnets of the cluster: subnet-00000000000000002" in each for each in messages
    )


def test_a_cluster_with_public_subnets_alone_is_an_error_that_names_the_field():
    with pytest.raises(
        ProgramFailed,
        match=r"cluster.name: all subnets of the cluster are public .*Set subnets of the pools",
    ):
        declared(Routed(main="igw-1"))


@pytest.mark.parametrize("cluster", [ADOPTED, {**ADOPTED, "subnets": SUBNETS, "autoMode": True}])
def test_subnets_and_security_groups_of_a_pool_reach_its_nodes(cluster):
    chosen = {"subnets": ["subnet-0aaaaaaaaaaaaaaaa"], "securityGroups": ["sg-0bbbbbbbbbbbbbbbb"]}
    recording = declared(cluster=cluster, nodePools={"l40s": {**L40S, **chosen}})
    if "autoMode" in cluster:
        spec = recording.one("kubernetes:eks.amazonaws.com/v1:NodeClass").inputs["spec"]
        assert spec["subnetSelectorTerms"] == [{"id": "subnet-0aaaaaaaaaaaaaaaa"}]
        groups = [each["id"] for each in spec["securityGroupSelectorTerms"]]
    else:
        assert recording.one("aws:eks/nodeGroup:NodeGroup").inputs["subnetIds"] == chosen["subnets"]
        groups = recording.one("aws:ec2/launchTemplate:LaunchTemplate").inputs[
            "vpcSecurityGroupIds"
        ]
    # The group of the stack's nodes, the cluster's own, and the one of the pool.
    assert len(groups) == 3
    assert "sg-0bbbbbbbbbbbbbbbb" in groups


def test_one_subnet_for_two_zones_is_rejected():
    with pytest.raises(
        ValueError,
        match=(
            r"subnet-0123456789abcdef0 for us-east-1a and us-east-1b, and a subnet is in one zone"
        ),
    ):
        declared(cluster={**ADOPTED, "subnets": dict.fromkeys(SUBNETS, "subnet-0123456789abcdef0")})


class Refusal(grpc.RpcError):
    """What an engine answers when a provider's function fails."""

    def __init__(self, cause: str) -> None:
        self._cause = cause

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return self._cause


class Missing(_Known):
    """An AWS that lacks what one look-up asks for, or answers it with another `cause`."""

    def __init__(self, function: str, cause: str = "couldn't find resource") -> None:
        self._function = function
        self._cause = cause

    def invoke(self, token: str, arguments: Any) -> Any:
        if token.endswith(self._function):
            raise Refusal(self._cause)
        return super().invoke(token, arguments)


EXISTING = {"kind": "efs", "fileSystemId": "fs-01234567", "accessPointId": "fsap-01234567"}


@pytest.mark.parametrize(
    ("function", "said", "remedy"),
    [
        ("getCluster", "cluster.name: 'shared' was not found (", "cluster.create"),
        (
            "getSubnet",
            "cluster.subnets.us-east-1a: 'subnet-0000000a' was not found (",
            "Check the cluster's region and account",
        ),
        (
            "getFileSystem",
            "storage.shared.fileSystemId: 'fs-01234567' was not found (",
            "remove both ids to create a file system",
        ),
        (
            "getAccessPoint",
            "storage.shared.accessPointId: 'fsap-01234567' was not found (",
            "remove both ids to create a file system",
        ),
    ],
)
def test_an_adopted_thing_that_does_not_exist_is_reported_with_the_key_that_names_it(
    function, said, remedy
):
    with pytest.raises(ProgramFailed) as caught:
        declared(
            Missing(function),
            cluster={**ADOPTED, "subnets": {"us-east-1a": "subnet-0000000a"}},
            storage={"shared": EXISTING},
        )
    assert said in str(caught.value)
    assert "couldn't find resource" in str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    "cluster", [ADOPTED, {**CREATED, "create": {**CREATED["create"], "zones": None}}]
)
def test_a_subnet_of_another_zone_is_refused(cluster):
    class Elsewhere(_Known):
        def invoke(self, token: str, arguments: Any) -> Any:
            return {
                **super().invoke(token, arguments),
                **({"availabilityZone": "us-east-1b"} if "getSubnet" in token else {}),
            }

    subnets = {"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b"}
    with pytest.raises(ProgramFailed) as caught:
        declared(Elsewhere(), cluster={**cluster, "subnets": subnets}, nodePools=POOLS)
    assert (
        "cluster.subnets.us-east-1a: 'subnet-0000000a' is in us-east-1b. Use a subnet in"
        " us-east-1a." in str(caught.value)
    )


KEY = "arn:aws:kms:us-east-1:111122223333:key/0d9c1c1e-1111-4222-8333-444455556666"
DL1 = {
    "provider": "eks",
    "accelerator": "gaudi-1",
    "instanceTypes": ["dl1.24xlarge"],
    "amiType": "CUSTOM",
    "amiId": "ami-0123456789abcdef0",
    "size": {"max": 1},
}
NAMED = {
    "getBucket": ("storage.weights.bucket: 'acme-weights'", "set create: {} to create the bucket"),
    "getKey": (f"storage.weights.kmsKeyArn: '{KEY}'", "remove it to use the default key"),
    "getAmi": (
        "nodePools.dl1.amiId: 'ami-0123456789abcdef0'",
        "copy the image to the cluster's region",
    ),
}


def _naming(realizer: Any = None) -> Any:
    """A stack that names a bucket, its key and an image, each of which exists already."""
    weights = {**BUCKET, "kmsKeyArn": KEY}
    return declared(
        realizer,
        nodePools={"l40s": L40S, "dl1": DL1},
        storage={"weights": weights},
        models={"llama": model()},
    )


@pytest.mark.parametrize("function", NAMED)
def test_what_a_stack_names_and_aws_does_not_have_is_reported_with_its_key(function):
    with pytest.raises(ProgramFailed) as caught:
        _naming(Missing(function))
    who, remedy = NAMED[function]
    assert f"{who} was not found (" in str(caught.value)
    assert "couldn't find resource" in str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize("function", NAMED)
def test_what_may_not_be_looked_at_is_taken_as_it_is_with_a_warning(function):
    recording = _naming(Missing(function, "api error AccessDenied: no right to do this"))
    [warned] = [each.message for each in recording.diagnostics if each.severity == "warning"]
    key, _, value = NAMED[function][0].partition(": ")
    assert f"{key}: cannot check that {value} exists (" in warned
    assert "AccessDenied: no right to do this" in warned
    granted = json.dumps(
        [each.inputs for each in recording.of_type("aws:iam/rolePolicy:RolePolicy")]
    )
    assert "acme-weights" in granted
    assert KEY in granted
    assert "ami-0123456789abcdef0" in [
        each.inputs.get("imageId")
        for each in recording.of_type("aws:ec2/launchTemplate:LaunchTemplate")
    ]


def test_a_bucket_of_another_region_is_refused_with_the_region_to_write():
    class Elsewhere(_Known):
        def invoke(self, token: str, arguments: Any) -> Any:
            return {
                **super().invoke(token, arguments),
                **({"bucketRegion": "eu-west-1"} if "getBucket" in token else {}),
            }

    with pytest.raises(ProgramFailed) as caught:
        _naming(Elsewhere())
    expected = (
        "storage.weights.region: the bucket 'acme-weights' is in eu-west-1, not in us-east-1. Set"
        " region: eu-west-1."
    )
    assert expected in str(caught.value)


def test_a_bucket_behind_another_endpoint_is_no_business_of_aws():
    behind = {
        **BUCKET,
        "endpoint": "https://minio.example:9000",
        "credentials": {"secretName": "minio"},
    }
    assert declared(Missing("getBucket"), storage={"weights": behind}, models={"llama": model()})


def test_an_access_point_of_another_file_system_is_refused():
    class Other(_Known):
        def invoke(self, token: str, arguments: Any) -> Any:
            return {
                **super().invoke(token, arguments),
                **({"fileSystemId": "fs-89abcdef"} if "getAccessPoint" in token else {}),
            }

    with pytest.raises(ProgramFailed) as caught:
        declared(Other(), storage={"shared": EXISTING})
    assert (
        "storage.shared.accessPointId: 'fsap-01234567' belongs to fs-89abcdef. Use an access point"
        " of fs-01234567." in str(caught.value)
    )


def test_an_adopted_file_system_is_mounted_by_its_access_point_once_it_is_found():
    volume = (
        declared(storage={"shared": EXISTING})
        .one("kubernetes:core/v1:PersistentVolume")
        .inputs["spec"]
    )
    assert volume["csi"]["volumeHandle"] == "fs-01234567::fsap-01234567"
