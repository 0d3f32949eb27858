"""Everything of a user that an account holds, as one flat list: a remedy may add to it, and loses
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from tests.unit.doctor.worlds import Shared

# The lists whose items are a resource each, with the key of its id.
_LISTS = (
    ("ec2", "describe_subnets", "Subnets", "SubnetId"),
    ("ec2", "describe_vpcs", "Vpcs", "VpcId"),
    ("ec2", "describe_route_tables", "RouteTables", "RouteTableId"),
    ("ec2", "describe_security_groups", "SecurityGroups", "GroupId"),
    ("ec2", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    ("ec2", "describe_network_acls", "NetworkAcls", "NetworkAclId"),
    ("ec2", "describe_instances", "Reservations", "ReservationId"),
    ("ec2", "describe_nat_gateways", "NatGateways", "NatGatewayId"),
    ("efs", "describe_file_systems", "FileSystems", "FileSystemId"),
    ("efs", "describe_access_points", "AccessPoints", "AccessPointId"),
    ("s3", "list_buckets", "Buckets", "Name"),
    ("kms", "list_keys", "Keys", "KeyId"),
    ("iam", "list_roles", "Roles", "RoleName"),
    ("iam", "list_users", "Users", "UserName"),
    ("sso-admin", "list_instances", "Instances", "InstanceArn"),
)
# Counters and states, which change without a loss.
_MOVING = {"AvailableIpAddressCount", "NumberOfMountTargets", "State", "SizeInBytes"}


def inventory(world: Shared) -> set[str]:
    """One line for each resource, and for each rule, route, statement, tag and setting of it."""
    return set(_lines(world))


def _lines(world: Shared) -> Iterator[str]:
    for service, operation, key, id_ in _LISTS:
        for each in world.moto(service, operation)[key]:
            yield from _flat(f"{operation} {each[id_]}", each)
    for bucket in world.moto("s3", "list_buckets")["Buckets"]:
        yield from _policy(world, "s3", "get_bucket_policy", "Policy", Bucket=bucket["Name"])
        for each in world.moto("s3", "list_objects_v2", Bucket=bucket["Name"]).get("Contents", ()):
            yield f"object {bucket['Name']} {each['Key']}"
    for key in world.moto("kms", "list_keys")["Keys"]:
        named = {"KeyId": key["KeyId"], "PolicyName": "default"}
        yield from _policy(world, "kms", "get_key_policy", "Policy", **named)
    for each in world.moto("efs", "describe_file_systems")["FileSystems"]:
        named = {"FileSystemId": each["FileSystemId"]}
        yield from _policy(world, "efs", "describe_file_system_policy", "Policy", **named)
        for one in world.moto("efs", "describe_mount_targets", **named)["MountTargets"]:
            yield f"mount target {one['MountTargetId']}"
    for role in world.moto("iam", "list_roles")["Roles"]:
        names = world.moto("iam", "list_role_policies", RoleName=role["RoleName"])["PolicyNames"]
        yield from (f"policy {role['RoleName']} {name}" for name in names)
    yield from (f"add-on {name}" for name in world.addons)
    yield from _flat("cluster", world.cluster)
    yield from (
        f"add-on {name} {row.get('configurationValues')}" for name, row in world.addon_rows.items()
    )


def _policy(world: Shared, service: str, operation: str, key: str, **named: Any) -> Iterator[str]:
    with suppress(Exception):  # it has none
        policy = json.loads(world.moto(service, operation, **named)[key])
        for each in policy["Statement"]:
            yield from _flat(f"{operation} {named} {each.get('Sid')}", each)


def _flat(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key not in _MOVING:
                yield from _flat(f"{path}.{key}", each)
    elif isinstance(value, list | tuple | set):
        for each in value:
            if path.endswith(("IpPermissions", "IpPermissionsEgress")):
                yield from _rules(path, each)
            elif isinstance(each, Mapping):
                yield f"{path} {json.dumps(each, sort_keys=True, default=str)}"
            else:
                yield f"{path} {each}"
    elif path.endswith("PolicyDocument") and value:
        yield from _flat(path.removesuffix("Document"), json.loads(str(value)))
    else:
        yield f"{path} {value}"


def _rules(path: str, rule: Mapping[str, Any]) -> Iterator[str]:
    """One line for each source of a rule: EC2 puts sources of the same ports together."""
    ports = f"{rule['IpProtocol']} {rule.get('FromPort')}-{rule.get('ToPort')}"
    for kind in ("UserIdGroupPairs", "IpRanges", "PrefixListIds", "Ipv6Ranges"):
        for each in rule.get(kind, ()):
            yield f"{path} {ports} {json.dumps(each, sort_keys=True)}"
