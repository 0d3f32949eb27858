"""Ways to break the account of a test, one thing each."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.aws.rig import L40S, model
from tests.unit.doctor.account_worlds import pool
from tests.unit.doctor.aws_account import ACCOUNT
from tests.unit.doctor.worlds import ISSUER, ZONES, Shared

Break = Callable[[Shared], Any]
_A, _B, _C = ZONES
ENDPOINTS = ("ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "sts")
ROOT = f"arn:aws:iam::{ACCOUNT}:root"


def by_default(world: Shared) -> None:
    """The stack file names no subnets: nodes start in those of the cluster."""
    del world.config["cluster"]["subnets"]


def cluster_in(*blocks: str) -> Break:
    """The cluster is in subnets of these blocks, the first in us-east-1a; the stack names none."""

    def change(world: Shared) -> None:
        by_default(world)
        ids = [world.subnet(each, zone) for each, zone in zip(blocks, ZONES, strict=False)]
        world.cluster["resourcesVpcConfig"]["subnetIds"] = ids

    return change


def small_by_default(world: Shared) -> None:
    cluster_in("10.1.200.0/28")(world)
    world.cluster["resourcesVpcConfig"]["subnetIds"] += [world.private[_B], world.private[_C]]


def public_by_default(world: Shared) -> None:
    by_default(world)
    world.cluster["resourcesVpcConfig"]["subnetIds"] = [world.public]


def tables(world: Shared) -> list[dict[str, Any]]:
    filters = [{"Name": "vpc-id", "Values": [world.vpc]}]
    answer = world.ask("ec2", "describe_route_tables", Filters=filters)["RouteTables"]
    return [each for each in answer if any(route.get("NatGatewayId") for route in each["Routes"])]


def closed(world: Shared) -> None:
    for table in tables(world):
        route = {"RouteTableId": table["RouteTableId"], "DestinationCidrBlock": "0.0.0.0/0"}
        world.ask("ec2", "delete_route", **route)


def nat(world: Shared) -> str:
    return next(
        route["NatGatewayId"] for route in tables(world)[0]["Routes"] if route.get("NatGatewayId")
    )


def deleted_nat(world: Shared) -> None:
    world.ask("ec2", "delete_nat_gateway", NatGatewayId=nat(world))


def route_to(world: Shared, gateway: str) -> None:
    for table in tables(world):
        route = {"RouteTableId": table["RouteTableId"], "DestinationCidrBlock": "0.0.0.0/0"}
        world.ask("ec2", "replace_route", **route, NatGatewayId=gateway)


def nat_gateway(world: Shared, subnet: str, **fields: Any) -> str:
    if fields.get("ConnectivityType") != "private":
        fields["AllocationId"] = world.ask("ec2", "allocate_address", Domain="vpc")["AllocationId"]
    return world.ask("ec2", "create_nat_gateway", SubnetId=subnet, **fields)["NatGateway"][
        "NatGatewayId"
    ]


def other_nat_deleted(world: Shared) -> None:
    """One of two NAT gateways is gone; the other one works."""
    other = nat_gateway(world, world.public)
    route_to(world, other)
    world.ask("ec2", "delete_nat_gateway", NatGatewayId=other)


def nat_without_internet(world: Shared) -> None:
    inner = world.subnet("10.1.120.0/24", _A)
    table = world.ask("ec2", "create_route_table", VpcId=world.vpc)["RouteTable"]["RouteTableId"]
    world.ask("ec2", "associate_route_table", RouteTableId=table, SubnetId=inner)
    route_to(world, nat_gateway(world, inner))


def private_nat(world: Shared) -> None:
    """The first subnet's default route leads to other networks of the company."""
    subnet = world.subnet("10.1.130.0/24", _A)
    table = world.ask("ec2", "create_route_table", VpcId=world.vpc)["RouteTable"]["RouteTableId"]
    world.ask("ec2", "associate_route_table", RouteTableId=table, SubnetId=subnet)
    gateway = nat_gateway(world, subnet, ConnectivityType="private")
    world.ask(
        "ec2",
        "create_route",
        RouteTableId=table,
        DestinationCidrBlock="0.0.0.0/0",
        NatGatewayId=gateway,
    )
    world.config["cluster"]["subnets"][_A] = subnet


def endpoint(world: Shared, name: str, **fields: Any) -> str:
    kind = {"VpcEndpointType": "Gateway"} if name == "s3" else {
        "VpcEndpointType": "Interface", "PrivateDnsEnabled": True, "SubnetIds": list(world.private.values()),
    }  # fmt: skip
    call = {"VpcId": world.vpc, "ServiceName": f"com.amazonaws.us-east-1.{name}", **kind, **fields}
    return world.ask("ec2", "create_vpc_endpoint", **call)["VpcEndpoint"]["VpcEndpointId"]


def gateway_on_some_tables(world: Shared) -> None:
    found = [each["RouteTableId"] for each in tables(world)]
    closed(world)
    open_group = world.group("endpoints")
    world.admit_block(open_group, "10.1.0.0/16", 443)
    for name in ENDPOINTS:
        endpoint(world, name, SecurityGroupIds=[open_group])
    endpoint(world, "s3", RouteTableIds=found[1:2])


def endpoint_with_default_group(world: Shared) -> None:
    endpoint(world, "sts", SecurityGroupIds=[world.group("closed", itself=True)])


def s3_policy(*statements: dict[str, Any]) -> Break:
    def change(world: Shared) -> None:
        policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        endpoint(
            world,
            "s3",
            RouteTableIds=[each["RouteTableId"] for each in tables(world)],
            PolicyDocument=policy,
        )

    return change


def allow(resource: str) -> dict[str, Any]:
    return {
        "Sid": "Data",
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": resource,
    }


def name_servers(*servers: str) -> Break:
    def change(world: Shared) -> None:
        rows = [{"Key": "domain-name-servers", "Values": list(servers)}]
        options = world.ask("ec2", "create_dhcp_options", DhcpConfigurations=rows)["DhcpOptions"][
            "DhcpOptionsId"
        ]
        world.ask("ec2", "associate_dhcp_options", DhcpOptionsId=options, VpcId=world.vpc)

    return change


def acl(world: Shared, *, egress: bool) -> None:
    """Somebody closed one way of the VPC's default ACL: number 90 denies it before 100 allows it."""
    filters = [{"Name": "vpc-id", "Values": [world.vpc]}]
    [live] = world.ask("ec2", "describe_network_acls", Filters=filters)["NetworkAcls"]
    world.ask("ec2", "create_network_acl_entry", NetworkAclId=live["NetworkAclId"], RuleNumber=90, Protocol="-1",
              RuleAction="deny", Egress=egress, CidrBlock="0.0.0.0/0")  # fmt: skip


def bucket_policy(statement: dict[str, Any], *changes: Break) -> Break:
    def change(world: Shared) -> None:
        for each in changes:
            each(world)
        audit = {
            "Sid": "Audit",
            "Effect": "Allow",
            "Principal": {"AWS": ROOT},
            "Action": "s3:GetBucketLocation",
            "Resource": "arn:aws:s3:::acme-weights",
        }
        document = {"Version": "2012-10-17", "Statement": [audit, statement]}
        world.ask("s3", "put_bucket_policy", Bucket="acme-weights", Policy=json.dumps(document))

    return change


def deny(condition: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    resources = ["arn:aws:s3:::acme-weights", "arn:aws:s3:::acme-weights/*"]
    entry = {
        "Sid": "Guard",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": resources,
        **fields,
    }
    return entry | ({"Condition": condition} if condition else {})


def gateway_to_s3(world: Shared) -> None:
    endpoint(world, "s3", RouteTableIds=[each["RouteTableId"] for each in tables(world)])


def organization(world: Shared) -> None:
    row = {
        "Id": "o-exampleorgid",
        "Arn": f"arn:aws:organizations::{ACCOUNT}:organization/o-exampleorgid",
    }
    world.answers["describe_organization"] = {"Organization": row}


def llama(*keys: str, storage_class: str = "STANDARD") -> Break:
    """A model that reads from llm/llama of the bucket, which has these files."""

    def change(world: Shared) -> None:
        world.config["nodePools"]["l40s"] = L40S | {"size": {"min": 1, "max": 4}}
        world.offered |= {each: list(ZONES) for each in L40S["instanceTypes"]}
        world.config["models"] = {"llama": model()}
        if storage_class in ("GLACIER", "DEEP_ARCHIVE"):
            restored(world)
        for each in keys:
            world.ask(
                "s3",
                "put_object",
                Bucket="acme-weights",
                Key=each,
                Body=b"x",
                StorageClass=storage_class,
            )

    return change


def restored(world: Shared) -> None:
    """moto's listings do not say what is restored, and a restoration takes hours."""
    done: set[str] = set()

    def listing(**call: Any) -> dict[str, Any]:
        answer = dict(world.moto("s3", "list_objects_v2", **call))
        for each in answer.get("Contents", ()):
            if each["Key"] in done:
                each["RestoreStatus"] = {
                    "IsRestoreInProgress": False,
                    "RestoreExpiryDate": soon(40_000),
                }
        return {"Contents": answer.get("Contents", [])}

    world.answers["list_objects_v2"] = listing
    world.answers["restore_object"] = lambda Key, **_: done.add(Key) or {}  # noqa: N803 - the API's spelling


def restoring(world: Shared) -> None:
    row = {
        "Key": "llm/llama/a",
        "Size": 1,
        "StorageClass": "GLACIER",
        "RestoreStatus": {"IsRestoreInProgress": True},
    }
    llama()(world)
    world.answers["list_objects_v2"] = {"Contents": [row]}


def key(
    policy: Callable[[str], dict[str, Any]] | None = None, **fields: Any
) -> Callable[[Shared], str]:
    def create(world: Shared) -> str:
        arn = world.ask("kms", "create_key", **fields)["KeyMetadata"]["Arn"]
        if policy is not None:
            world.ask(
                "kms",
                "put_key_policy",
                KeyId=arn,
                PolicyName="default",
                Policy=json.dumps(policy(arn)),
            )
        return arn

    return create


def admins_only(_: str) -> dict[str, Any]:
    admin = {
        "Sid": "Admins",
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/keys"},
        "Action": "kms:*",
        "Resource": "*",
    }
    return {"Version": "2012-10-17", "Statement": [admin]}


def encrypted(create: Callable[[Shared], str], *, named: bool = False) -> Break:
    def change(world: Shared) -> None:
        arn = create(world)
        rule = {
            "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": arn}
        }
        world.ask(
            "s3",
            "put_bucket_encryption",
            Bucket="acme-weights",
            ServerSideEncryptionConfiguration={"Rules": [rule]},
        )
        if named:
            world.config["storage"]["weights"]["kmsKeyArn"] = arn

    return change


def file_system_policy(*statements: dict[str, Any]) -> Break:
    def change(world: Shared) -> None:
        policy = {"Version": "2012-10-17", "Statement": list(statements)}
        world.ask(
            "efs", "put_file_system_policy", FileSystemId=world.system, Policy=json.dumps(policy)
        )

    return change


def volume_key(create: Callable[[Shared], str]) -> Break:
    return lambda world: world.answers.update(
        get_ebs_default_kms_key_id={"KmsKeyId": create(world)}
    )


def disabled(world: Shared) -> str:
    arn = key()(world)
    world.ask("kms", "disable_key", KeyId=arn.rpartition("/")[2])
    return arn


def nfs_from(*blocks: str, protocol: str = "tcp", port: int = 2049) -> Break:
    def change(world: Shared) -> None:
        group = world.group("networks")
        for each in blocks:
            world.admit_block(group, each, port, protocol)
        for zone, subnet in world.private.items():
            world.ask("efs", "delete_mount_target", MountTargetId=world.targets[zone])
            world.target(world.system, subnet, group)

    return change


def nfs_from_prefix_list(world: Shared) -> None:
    entries = [{"Cidr": "10.1.0.0/22"}]
    call = {"PrefixListName": "nodes", "MaxEntries": 5, "AddressFamily": "IPv4", "Entries": entries}
    list_id = world.ask("ec2", "create_managed_prefix_list", **call)["PrefixList"]["PrefixListId"]
    group = world.group("prefixes")
    rule = {
        "IpProtocol": "tcp",
        "FromPort": 2049,
        "ToPort": 2049,
        "PrefixListIds": [{"PrefixListId": list_id}],
    }
    world.ask("ec2", "authorize_security_group_ingress", GroupId=group, IpPermissions=[rule])
    for zone, subnet in world.private.items():
        world.ask("efs", "delete_mount_target", MountTargetId=world.targets[zone])
        world.target(world.system, subnet, group)


def dns_by_tcp_alone(world: Shared) -> None:
    group = world.group("nodes")
    world.admit(group, world.primary, 53)
    world.instance(group)


def one_zone(world: Shared) -> None:
    system = world.ask("efs", "create_file_system", CreationToken="one", AvailabilityZoneName=_A)[
        "FileSystemId"
    ]
    point = world.ask("efs", "create_access_point", FileSystemId=system, ClientToken="one")[
        "AccessPointId"
    ]
    world.target(system, world.private[_A], world.nfs)
    world.config["storage"]["shared"] |= {"fileSystemId": system, "accessPointId": point}


def lone_cluster_group(world: Shared) -> None:
    rule = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": world.primary}]}
    world.ask("ec2", "revoke_security_group_ingress", GroupId=world.primary, IpPermissions=[rule])


def addon(name: str, status: str, **fields: Any) -> Break:
    return lambda world: world.addon_rows.update({name: {"status": status, **fields}})


def without_network(world: Shared) -> None:
    world.addons.discard("vpc-cni")


def health(code: str, message: str, *ids: str) -> Break:
    def change(world: Shared) -> None:
        keys = [disabled(world)] if code == "KmsKeyDisabled" else list(ids)
        world.cluster["health"] = {
            "issues": [{"code": code, "message": message, "resourceIds": keys}]
        }
        # EKS notices that a key is enabled.
        world.answers["enable_key"] = lambda **_: world.cluster.pop("health") and {}

    return change


def dedicated(world: Shared) -> None:
    """moto changes the tenancy in one direction, so that the world starts from the answer."""
    rows = world.ask("ec2", "describe_vpcs", VpcIds=[world.vpc])["Vpcs"]
    rows[0]["InstanceTenancy"] = "dedicated"
    world.answers["describe_vpcs"] = lambda **_: {"Vpcs": rows}
    world.answers["modify_vpc_tenancy"] = lambda **call: (
        rows[0].update(InstanceTenancy=call["InstanceTenancy"]) or {"ReturnValue": True}
    )


def role_that_exists(world: Shared) -> None:
    from types import SimpleNamespace

    name = "shared-reader"
    world.ask("iam", "create_role", RoleName=name, AssumeRolePolicyDocument="{}")
    row = {
        "RoleName": name,
        "Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}",
        "Path": "/",
        "RoleId": "AROA0123456789ABCDEF",
        "CreateDate": 0,
    }
    world.answers["get_role"] = {"Role": row}
    world.ask("iam", "create_open_id_connect_provider", Url=ISSUER, ThumbprintList=["a" * 40])
    world.config["cluster"]["identity"] = "irsa"
    made = SimpleNamespace(
        type="aws:iam/role:Role", name="reader", custom=True, read=False, inputs={"name": name}
    )
    world.registered = lambda: [made] if world.config["cluster"]["identity"] == "irsa" else []


def image(**fields: Any) -> Break:
    def change(world: Shared) -> None:
        row = {
            "ImageId": "ami-0123456789abcdef0",
            "State": "available",
            "Architecture": "x86_64",
            "RootDeviceType": "ebs",
            "RootDeviceName": "/dev/xvda",
        }
        world.answers["describe_images"] = {"Images": [row | fields]}
        pool(amiType="CUSTOM", amiId="ami-0123456789abcdef0", instanceTypes=["m7i.2xlarge"])(world)

    return change


def snapshot(size: int) -> list[dict[str, Any]]:
    return [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {"VolumeSize": size, "SnapshotId": "snap-0123456789abcdef0"},
        }
    ]


def soon(minutes: int) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


def updating(status: str) -> Break:
    return lambda world: world.cluster.update(status=status)


def simulated(**result: Any) -> Break:
    def simulate(ActionNames: list[str], **_: Any) -> dict[str, Any]:  # noqa: N803 - the API's spelling
        rows = [{"EvalActionName": each, "EvalDecision": "allowed"} for each in ActionNames]
        return {
            "EvaluationResults": [
                row | (result if row["EvalActionName"].startswith("ec2:") else {}) for row in rows
            ]
        }

    return lambda world: world.answers.update(simulate_principal_policy=simulate)


def region_off(world: Shared) -> None:
    from inferplan.errors import LoginError

    world.answers["get_region_opt_status"] = {
        "RegionName": "us-east-1",
        "RegionOptStatus": "DISABLED",
    }
    world.answers["get_caller_identity"] = LoginError(
        "AWS does not accept the credentials", remedy="aws sso login"
    )


def peering(world: Shared) -> None:
    other = world.other_vpc()
    link = world.ask("ec2", "create_vpc_peering_connection", VpcId=world.vpc, PeerVpcId=other)
    target = link["VpcPeeringConnection"]["VpcPeeringConnectionId"]
    subnet = world.subnet("10.1.140.0/24", _A)
    world.table(subnet, VpcPeeringConnectionId=target)
    world.config["cluster"]["subnets"][_A] = subnet


def transit(world: Shared) -> None:
    gateway = world.ask("ec2", "create_transit_gateway")["TransitGateway"]["TransitGatewayId"]
    _reroute(world, TransitGatewayId=gateway)


def _reroute(world: Shared, **target: str) -> None:
    for table in tables(world):
        route = {"RouteTableId": table["RouteTableId"], "DestinationCidrBlock": "0.0.0.0/0"}
        world.ask("ec2", "delete_route", **route)
        world.ask("ec2", "create_route", **route, **target)


def disabled_file_system(world: Shared) -> None:
    arn = key()(world)
    call = {"CreationToken": "locked", "Encrypted": True, "KmsKeyId": arn}
    system = world.ask("efs", "create_file_system", **call)["FileSystemId"]
    point = world.ask("efs", "create_access_point", FileSystemId=system, ClientToken="locked")
    for subnet in world.private.values():
        world.target(system, subnet, world.nfs)
    ids = {"fileSystemId": system, "accessPointId": point["AccessPointId"]}
    world.config["storage"]["shared"] |= ids
    world.ask("kms", "disable_key", KeyId=arn.rpartition("/")[2])


def private_api_for_nat(world: Shared) -> None:
    [row] = world.ask("ec2", "describe_nat_gateways")["NatGateways"]
    address = row["NatGatewayAddresses"][0]["PublicIp"]
    network = {"endpointPrivateAccess": False, "publicAccessCidrs": [f"{address}/32"]}
    world.cluster["resourcesVpcConfig"] |= network


def two_versions(world: Shared) -> None:
    """The stack created the cluster, and its file jumps over a version."""
    world.created()
    world.config["cluster"]["name"] = "shared"
    world.config["cluster"]["create"]["kubernetesVersion"] = "1.36"
    world.cluster["tags"] = {"inferplan.dev/stack": "test"}
    tags = {"inferplan.dev/stack": "test"}
    world.ask("logs", "create_log_group", logGroupName="/aws/eks/shared/cluster", tags=tags)


def failed_nat(world: Shared) -> None:
    """The NAT gateway has failed; moto has no such state."""
    failed = nat(world)

    def describe(**_: Any) -> dict[str, Any]:
        rows = world.moto("ec2", "describe_nat_gateways")["NatGateways"]
        return {
            "NatGateways": [
                row | ({"State": "failed"} if row["NatGatewayId"] == failed else {}) for row in rows
            ]
        }

    world.answers["describe_nat_gateways"] = describe
