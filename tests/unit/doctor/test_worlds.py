"""Accounts in which an update would fail: `doctor` names the cause, and its remedy, executed as it
is printed, makes it pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws

from inferplan.commands.doctor.aws.checks import AWS_CHECKS
from inferplan.commands.doctor.findings import Severity
from inferplan.components.platforms.aws.credentials import AwsError
from inferplan.components.platforms.aws.prerequisites import preview
from inferplan.components.platforms.aws.prerequisites.preview import messages
from inferplan.components.platforms.aws.prerequisites.table import rows, rows_with_checks
from inferplan.components.platforms.aws.prerequisites.world import World as Place
from tests.unit.aws.rig import settings
from tests.unit.doctor.account_worlds import ACCOUNT_WORLDS
from tests.unit.doctor.aws_account import credentials
from tests.unit.doctor.aws_cli import execute
from tests.unit.doctor.fresh_worlds import FOR_PEOPLE, FRESH, OPEN, SOUND
from tests.unit.doctor.inventory import inventory
from tests.unit.doctor.network_worlds import (
    NETWORKS,
    NETWORKS_FOR_PEOPLE,
    OPEN_NETWORKS,
    SOUND_NETWORKS,
    balancer,
)
from tests.unit.doctor.worlds import Shared

Break = Callable[[Shared], Any]
_A, _B = "us-east-1a", "us-east-1b"


@pytest.fixture
def world(monkeypatch) -> Iterator[Shared]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    with mock_aws():
        yield Shared()


def subnet_of_cluster(world: Shared, subnet: str) -> None:
    world.config["cluster"]["subnets"][_A] = subnet


def subnet_of_pool(world: Shared, subnet: str) -> None:
    world.config["nodePools"]["system"]["subnets"] = [subnet]


def no_room_elsewhere(world: Shared) -> None:
    """A /28 for the cluster, and no other private subnet in its zone: the remedy creates one, and
    then names it.
    """
    world.ask("efs", "delete_mount_target", MountTargetId=world.targets[_A])
    world.ask("ec2", "delete_subnet", SubnetId=world.private[_A])
    subnet_of_cluster(world, world.subnet("10.1.200.0/28", _A))


def closed(world: Shared) -> None:
    for table in world.ask(
        "ec2", "describe_route_tables", Filters=[{"Name": "vpc-id", "Values": [world.vpc]}]
    )["RouteTables"]:
        if any(route.get("NatGatewayId") for route in table["Routes"]):
            world.ask(
                "ec2",
                "delete_route",
                RouteTableId=table["RouteTableId"],
                DestinationCidrBlock="0.0.0.0/0",
            )


def created(change: Break) -> Break:
    return lambda world: (world.created(), change(world))


def in_zones(*zones: str) -> Break:
    def change(world: Shared) -> None:
        del world.config["cluster"]["subnets"]
        world.config["cluster"]["create"]["zones"] = list(zones)

    return created(change)


def in_zone_without_control_plane(world: Shared) -> None:
    world.created()
    world.config["cluster"]["subnets"]["us-east-1e"] = world.subnet("10.1.210.0/24", "us-east-1e")


def renamed_zones(world: Shared) -> None:
    """In this account us-east-1a is the zone without control planes; letters differ by account."""
    world.created()
    rows = [{"ZoneName": f"us-east-1{letter}", "ZoneId": f"use1-az{number}", "State": "available", "OptInStatus": "opt-in-not-required", "ZoneType": "availability-zone"} for letter, number in zip("abcdef", (3, 1, 2, 4, 6, 5), strict=True)]  # fmt: skip
    world.answers["describe_availability_zones"] = {"AvailabilityZones": rows}


def private_api(world: Shared) -> None:
    world.cluster["resourcesVpcConfig"] |= {
        "endpointPrivateAccess": False,
        "publicAccessCidrs": ["198.51.100.7/32"],
    }


def nodes_with_own_group(world: Shared, *, itself: bool) -> None:
    world.instance(world.group("nodes", itself=itself))


def log_group(world: Shared) -> None:
    world.created()
    world.ask("logs", "create_log_group", logGroupName="/aws/eks/fresh/cluster")


def irsa(world: Shared) -> None:
    world.config["cluster"]["identity"] = "irsa"


def file_system_elsewhere(world: Shared) -> None:
    vpc = world.other_vpc()
    system = world.ask("efs", "create_file_system", CreationToken="other")["FileSystemId"]
    point = world.ask("efs", "create_access_point", FileSystemId=system, ClientToken="other")[
        "AccessPointId"
    ]
    world.target(system, world.subnet("10.9.0.0/24", _A, vpc), world.group("far", vpc=vpc))
    world.config["storage"]["shared"] |= {"fileSystemId": system, "accessPointId": point}


def nfs_closed(world: Shared) -> None:
    empty = world.group("empty")
    for zone, subnet in world.private.items():
        world.ask("efs", "delete_mount_target", MountTargetId=world.targets[zone])
        world.target(world.system, subnet, empty)


def bucket_elsewhere(world: Shared) -> None:
    world.answers["get_bucket_location"] = {"LocationConstraint": "eu-central-1"}


def point_of_another(world: Shared) -> None:
    other = world.ask("efs", "create_file_system", CreationToken="other")["FileSystemId"]
    point = world.ask("efs", "create_access_point", FileSystemId=other, ClientToken="other")[
        "AccessPointId"
    ]
    world.config["storage"]["shared"]["accessPointId"] = point


def lustre(state: str = "AVAILABLE", **fields: str) -> Break:
    """Let a store name a file system of FSx for Lustre, which is in `state`."""

    def change(world: Shared) -> None:
        made = world.ask(
            "fsx",
            "create_file_system",
            FileSystemType="LUSTRE",
            StorageCapacity=1200,
            SubnetIds=[world.private[_A]],
            LustreConfiguration={"DeploymentType": "SCRATCH_2"},
        )["FileSystem"]
        mount = "abcdefgh"
        row = {
            **made,
            "Lifecycle": state,
            "VpcId": world.vpc,
            "LustreConfiguration": {"MountName": mount},
        }
        systems = world.ask

        def ask(service: str, operation: str, **call: Any) -> Any:
            if (service, operation) != ("fsx", "describe_file_systems"):
                return systems(service, operation, **call)
            if call["FileSystemIds"] != [row["FileSystemId"]]:
                raise AwsError("no file system", "FileSystemNotFound")
            return {"FileSystems": [row]}

        world.ask = ask
        world.config["storage"]["fast"] = {
            "kind": "fsx",
            "fileSystemId": row["FileSystemId"],
            "dnsName": f"{row['FileSystemId']}.fsx.us-east-1.amazonaws.com",
            "mountName": mount,
            **fields,
        }

    return change


WORLDS: dict[str, tuple[str, Break, str]] = {
    "subnet that does not exist": ("subnet-exists", lambda w: subnet_of_cluster(w, "subnet-0123456789abcdef0"), "does not exist in us-east-1"),
    "pool's subnet that does not exist": ("subnet-exists", lambda w: subnet_of_pool(w, "subnet-0123456789abcdef0"), "nodePools.system.subnets[0]"),
    "subnet of another zone": ("subnet-zone", lambda w: subnet_of_cluster(w, w.subnet("10.1.50.0/24", _B)), "is in us-east-1b, not in us-east-1a"),
    "subnet of another VPC": ("subnet-vpc", lambda w: subnet_of_cluster(w, w.subnet("10.9.0.0/24", _A, w.other_vpc())), "and cluster shared in vpc-"),
    "pool's subnet of another VPC": ("subnet-vpc", lambda w: subnet_of_pool(w, w.subnet("10.9.0.0/24", _A, w.other_vpc())), "nodePools.system.subnets[0]"),
    "public subnet": ("subnet-private", lambda w: subnet_of_cluster(w, w.public), "is public"),
    "pool's public subnet": ("subnet-private", lambda w: subnet_of_pool(w, w.public), "nodePools.system.subnets[0]"),
    "a /28": ("subnet-size", lambda w: subnet_of_cluster(w, w.subnet("10.1.200.0/28", _A)), "(10.1.200.0/28) has 11 free addresses"),
    "a /28 and no other subnet": ("subnet-size", no_room_elsewhere, "(10.1.200.0/28) has 11 free addresses"),
    "pool's /28": ("subnet-size", lambda w: subnet_of_pool(w, w.subnet("10.1.200.0/28", _A)), "nodePools.system.subnets[0]"),
    "no route out and no endpoints": ("subnet-route", closed, "has no endpoint for ec2, ecr.api, ecr.dkr, eks, eks-auth, sts, s3"),
    "no DNS hostnames": ("vpc-dns", lambda w: w.ask("ec2", "modify_vpc_attribute", VpcId=w.vpc, EnableDnsHostnames={"Value": False}), "enableDnsHostnames off"),
    "no DNS resolution": ("vpc-dns", lambda w: w.ask("ec2", "modify_vpc_attribute", VpcId=w.vpc, EnableDnsSupport={"Value": False}), "enableDnsSupport off"),
    "zone that the account does not have": ("zone-available", in_zones(_A, "us-east-1k"), "no available zone us-east-1k"),
    "pool's zone that the account does not have": ("zone-available", lambda w: w.config["nodePools"]["system"].update(zones=["us-east-1k"], subnets=[w.private[_A]]), "nodePools.system.zones[0]"),
    "zone without control planes": ("zone-control-plane", in_zones(_A, "us-east-1e"), "us-east-1e of this account is zone use1-az3"),
    "subnet in a zone without control planes": ("zone-control-plane", in_zone_without_control_plane, "us-east-1e of this account is zone use1-az3"),
    "another letter without control planes": ("zone-control-plane", renamed_zones, "us-east-1a of this account is zone use1-az3"),
    "API server for some networks only": ("api-endpoint", private_api, "admits 198.51.100.7/32 only"),
    "security group that does not exist": ("security-group", lambda w: w.config["nodePools"]["system"].update(securityGroups=["sg-0123456789abcdef0"]), "does not exist"),
    "security group of another VPC": ("security-group", lambda w: w.config["nodePools"]["system"].update(securityGroups=[w.group("far", vpc=w.other_vpc())]), "and the cluster in vpc-"),
    "CoreDNS on nodes with their own group": ("coredns", lambda w: nodes_with_own_group(w, itself=True), "do not admit port 53"),
    "CoreDNS on nodes with a closed group": ("coredns", lambda w: nodes_with_own_group(w, itself=False), "do not admit port 53"),
    "public subnets without tags": ("balancer-subnets", balancer("internet-facing"), "0 subnets of vpc-"),
    "private subnets without tags": ("balancer-subnets", balancer("internal"), "kubernetes.io/role/internal-elb=1"),
    "new cluster of an unsupported version": ("cluster-version", created(lambda w: w.releases.update({"1.34": "UNSUPPORTED"})), "support is unsupported"),
    "new cluster in extended support": ("cluster-version", created(lambda w: w.releases.update({"1.34": "EXTENDED_SUPPORT"})), "support is extended support"),
    "existing cluster out of support": ("cluster-version", lambda w: w.cluster.update(version="1.32"), "cluster shared has Kubernetes 1.32"),
    "log group that is there": ("log-group", log_group, "/aws/eks/fresh/cluster exists already"),
    "no Auto Mode": ("auto-mode", lambda w: w.config["cluster"].update(autoMode=True), "has no EKS Auto Mode"),
    "no agent": ("pod-identity-agent", lambda w: w.addons.remove("eks-pod-identity-agent"), "add-on eks-pod-identity-agent, through which pods get their roles, is not installed"),
    "no OIDC provider": ("oidc-provider", irsa, "IAM has no OIDC provider for https://oidc.eks"),
    "no EFS driver": ("efs-driver", lambda w: w.addons.remove("aws-efs-csi-driver"), "add-on aws-efs-csi-driver of cluster shared, which mounts the store, is not installed"),
    "no FSx driver": ("fsx-driver", lustre(), "add-on aws-fsx-csi-driver of cluster shared, which mounts the store, is not installed"),
    "Lustre file system with another mount name": ("lustre", lustre(mountName="other"), "has the mount name"),
    "file system that does not exist": ("file-system", lambda w: w.config["storage"]["shared"].update(fileSystemId="fs-0123456789abcdef0", accessPointId="fsap-0123456789abcdef0"), "does not exist"),
    "access point of another file system": ("file-system", point_of_another, "is an access point of fs-"),
    "file system of another VPC": ("file-system-vpc", file_system_elsewhere, "has its mount targets in vpc-"),
    "zone without a mount target": ("mount-target", lambda w: w.ask("efs", "delete_mount_target", MountTargetId=w.targets[_B]), "no mount target in us-east-1b"),
    "mount targets that admit no node": ("mount-target-rule", nfs_closed, "does not admit port 2049"),
    "bucket of another region": ("bucket-region", bucket_elsewhere, "is in eu-central-1, not in us-east-1"),
    **ACCOUNT_WORLDS,
    **FRESH,
    **NETWORKS,
}  # fmt: skip
LUSTRE_FOR_PEOPLE = {
    "Lustre file system that does not exist": ("lustre", lustre(fileSystemId="fs-0a1b2c3d4e5f60718"), "fs-0a1b2c3d4e5f60718 does not exist in us-east-1", "that is available"),
    "Lustre file system that failed": ("lustre", lustre(state="FAILED"), "is FAILED", "that is available"),
}  # fmt: skip
PEOPLE = {**FOR_PEOPLE, **NETWORKS_FOR_PEOPLE, **LUSTRE_FOR_PEOPLE}
ODD = {**SOUND, **SOUND_NETWORKS}
QUESTIONS = {**OPEN, **OPEN_NETWORKS}


def test_an_account_that_has_everything_meets_every_prerequisite(world):
    assert world.examined() == []


def test_a_new_cluster_in_existing_subnets_meets_every_prerequisite(world):
    world.created()
    assert world.examined() == []


def test_there_is_a_world_for_every_prerequisite():
    worlds = {*(row for row, *_ in WORLDS.values()), *(row for row, *_ in PEOPLE.values())}
    assert worlds >= set(rows_with_checks())
    assert worlds >= {name for name in AWS_CHECKS if name.removeprefix("AWS ") not in rows()} - {
        "AWS certificate",  # tests/unit/doctor/test_aws_checks.py
        "AWS region",
    }
    assert len(WORLDS) >= 60


def sampled(worlds: Mapping[str, tuple[Any, ...]]) -> Iterator[Any]:
    """The first world of every fourth check; the others are `full`."""
    first = {row: name for name, (row, *_) in reversed([*worlds.items()])}
    often = [name for name in worlds if name in first.values()][::4]
    yield from (
        pytest.param(name, marks=() if name in often else pytest.mark.full) for name in worlds
    )


@pytest.mark.parametrize("name", list(sampled(WORLDS)))
def test_a_world_that_fails_is_named_and_its_remedy_makes_it_pass_without_a_loss(world, name):
    row, change, message = WORLDS[name]
    change(world)
    findings = world.examined()
    row = row.removeprefix("AWS ")
    assert message in next((text for check, text, _ in findings if check == row), str(findings))
    for _ in range(6):
        if not findings:
            return
        check, text, remedy = next(
            (each for each in findings if each[0] == row and message in each[1]), findings[0]
        )
        before, known = inventory(world), {each for each, _, _ in findings}
        execute(remedy, world, world.config)
        assert lost(before, inventory(world), name) == []
        findings = world.examined()
        assert (check, text) not in [(one, other) for one, other, _ in findings]
        assert {each for each, _, _ in findings} <= known | FOLLOWED.get(name, set())
    assert findings == []


def lost(before: set[str], after: set[str], name: str) -> list[str]:
    """What a remedy removed, except what a route that leads nowhere, or a wrong setting, was."""
    return sorted(
        each for each in before - after if not any(one in each for one in REPLACED.get(name, ()))
    )


# Wrong settings that a remedy replaces.
REPLACED = {
    **dict.fromkeys(
        (
            "route to a deleted NAT gateway",
            "route of the cluster to a deleted NAT gateway",
            "route to one of two NAT gateways, which is deleted",
            "NAT gateway in a private subnet",
            "NAT gateway that failed",
        ),
        ('"DestinationCidrBlock": "0.0.0.0/0"',),
    ),
    "endpoint that failed": ("vpce-",),
    "mount target that failed": ("mount target ",),
    "VPC of dedicated instances": ("InstanceTenancy",),
    "API server for some networks only": ("endpointPrivateAccess False",),
    "existing cluster out of support": ("cluster.version",),
    "cluster that is UPDATING": ("cluster.status",),
    "key of the cluster is disabled": ("cluster.health",),
}
# Checks that name the next step after a first remedy.
FOLLOWED: dict[str, set[str]] = {}


@pytest.mark.parametrize("name", list(sampled(PEOPLE)))
def test_a_world_that_a_person_repairs_is_named_with_what_to_do(world, name):
    row, change, message, word = PEOPLE[name]
    change(world)
    row = row.removeprefix("AWS ")
    found = [
        (each.check.removeprefix("AWS "), each.message, each.remedy)
        for each in world.findings()
        if each.severity in (Severity.WARNING, Severity.ERROR)
    ]
    text, remedy = next(
        (each[1:] for each in found if each[0] == row and message in each[1]), (str(found), "")
    )
    assert message in text
    assert word in remedy


def test_a_new_rule_of_an_acl_comes_after_what_others_deny(world):
    WORLDS["ACL of nodes that denies a block first"][1](world)
    [(_, _, remedy)] = world.examined("AWS network-acl")
    assert "--rule-number 19 " in remedy


@pytest.mark.parametrize(
    "name", ["NAT instance that is stopped", "NAT instance that drops packets"]
)
def test_the_remedy_for_a_nat_instance_leaves_the_question_where_it_leads(world, name):
    PEOPLE[name][1](world)
    execute(next(each.remedy for each in world.findings("AWS subnet-way-out")), world, world.config)
    [left] = world.findings("AWS subnet-way-out")
    assert (left.severity, "is decided there" in left.message) == (Severity.UNKNOWN, True)


@pytest.mark.parametrize("name", ODD)
def test_an_account_that_looks_unusual_gets_no_false_alarm(world, name):
    ODD[name](world)
    assert world.examined() == []


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_cannot_be_decided_stays_a_question(world, name):
    change, message = QUESTIONS[name]
    change(world)
    findings = world.findings()
    wrong = [each for each in findings if each.severity in (Severity.WARNING, Severity.ERROR)]
    assert wrong == []
    [question] = [each for each in findings if each.severity is Severity.UNKNOWN]
    assert message in question.message
    assert question.message.startswith("not checked, because")


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [name for name, (row, _, _) in WORLDS.items() if not row.startswith("AWS ")]
)
def test_a_preview_with_credentials_names_the_world_too(world, name):
    _, change, message = WORLDS[name]
    change(world)
    spec: Any = settings(**world.config)
    assert any(message in text for text in messages(Place(spec.cluster, spec, "test", world.ask)))


def test_the_page_lists_every_prerequisite_with_its_source():
    page = (Path(__file__).resolve().parents[3] / "docs" / "aws-prerequisites.md").read_text()
    listed = [
        name
        for name in rows_with_checks()
        if f"| `AWS {name}` | {rows()[name]['requires']} |" in page
        and rows()[name]["source"] in page
    ]
    assert listed == list(rows_with_checks())


def test_a_preview_with_credentials_names_the_same_and_one_without_asks_nothing(world, monkeypatch):
    subnet_of_cluster(world, world.public)
    spec: Any = settings(**world.config)
    texts = messages(Place(spec.cluster, spec, "test", world.ask))
    assert [each.split(" (")[0] for each in texts] == [
        f"cluster.subnets.us-east-1a: subnet {world.public} is public"
    ]
    assert f"Remedy: {world.examined()[0][2]}" in texts[0]
    world.answers["describe_route_tables"] = RuntimeError("UnauthorizedOperation")
    assert messages(Place(spec.cluster, spec, "test", world.ask))[-1].endswith(
        "could not be read. Run: inferplan doctor test"
    )

    calls: list[str] = []

    def unreachable(service: str, *_: str, **__: Any) -> Any:
        calls.append(service)
        raise EndpointConnectionError(endpoint_url="https://ec2.us-east-1.amazonaws.com/")

    [text] = messages(Place(spec.cluster, spec, "test", unreachable))
    assert "AWS was not asked about its prerequisites (Could not connect" in text
    assert len(calls) == 1

    async def nobody(_: object) -> None:
        return None

    monkeypatch.setattr(preview, "caller_arn", nobody)
    monkeypatch.setattr(preview, "asker", lambda _: pytest.fail("asked"))
    monkeypatch.setattr("pulumi.runtime.is_dry_run", lambda: True)
    asyncio.run(
        preview.warn_about_prerequisites(spec.cluster, spec, "test", pulumi.InvokeOptions())
    )


def test_the_calls_of_a_preview_reach_aws_through_botocore(world, monkeypatch):
    monkeypatch.setattr("botocore.session.Session", lambda: credentials()._session)
    ask = preview.asker("us-east-1")
    assert (
        ask("ec2", "describe_subnets", SubnetIds=[world.public])["Subnets"][0]["VpcId"] == world.vpc
    )
    with pytest.raises(preview.MissingError):
        ask("ec2", "describe_subnets", SubnetIds=["subnet-0123456789abcdef0"])
