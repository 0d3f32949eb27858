"""What a stack adopts at AWS: looked up, left as it is, and told by its key when it is not there."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from rehearsal.engine.errors import ProgramFailed
from tests.unit.aws.rig import ADOPTED, CREATED, L40S, SYSTEM, _Known, declared

POOLS = {"l40s": L40S, "system": SYSTEM}


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


@pytest.mark.parametrize("cluster", [ADOPTED, {**CREATED, "create": {**CREATED["create"], "zones": None}}])
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
