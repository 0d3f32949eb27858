"""What AWS would plausibly answer, for a rehearsal that never asks it: ids, ARNs, endpoints and look-ups.

Ids have the shape that AWS gives them and are the same on every run. The account is all zeros and every host ends in
`.invalid`, so that nothing here can be taken for something that exists.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rehearsal.engine.wire.values import UNKNOWN, has_unknown, reveal

if TYPE_CHECKING:
    from rehearsal.engine.wire.recording import Registration

Outputs = dict[str, Any]
ACCOUNT = "000000000000"
REGION = "us-east-1"
KUBERNETES = "1.34"
_ISSUER = "https://oidc.invalid/id/{name}"

# What EC2 and EFS put before the hexadecimal part of an id.
_PREFIXES = {
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": "sg",
    "aws:ec2/eip:Eip": "eipalloc",
    "aws:ec2/internetGateway:InternetGateway": "igw",
    "aws:ec2/launchTemplate:LaunchTemplate": "lt",
    "aws:ec2/natGateway:NatGateway": "nat",
    "aws:ec2/placementGroup:PlacementGroup": "pg",
    "aws:ec2/routeTable:RouteTable": "rtb",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "rtbassoc",
    "aws:ec2/securityGroup:SecurityGroup": "sg",
    "aws:ec2/subnet:Subnet": "subnet",
    "aws:ec2/vpc:Vpc": "vpc",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "vpce",
    "aws:efs/accessPoint:AccessPoint": "fsap",
    "aws:efs/fileSystem:FileSystem": "fs",
    "aws:efs/mountTarget:MountTarget": "fsmt",
}


def id_of(registration: Registration, digits: str) -> str:
    """The id of a resource: EC2's shape where it has one, else the name it was given, else one made of its Pulumi name."""
    prefix = _PREFIXES.get(registration.type)
    if prefix is not None:
        return f"{prefix}-{digits:0>17}"
    for key in ("bucket", "name"):
        given = registration.inputs.get(key)
        if isinstance(given, str):
            return given
    return f"{registration.name}-{digits}"


def outputs_of(registration: Registration, id_: str) -> Outputs:
    """What AWS would add to the inputs of a resource."""
    service = registration.type.split(":")[1].partition("/")[0]
    outputs: Outputs = {"arn": f"arn:aws:{service}:{REGION}:{ACCOUNT}:{id_}"}
    if "name" not in registration.inputs:
        outputs["name"] = id_
    make = _TABLE.get(registration.type)
    return outputs | (make(registration.inputs, id_) if make else {})


def document_texts(registration: Registration) -> Outputs:
    """The policy documents among the inputs as the provider gives them back: as JSON text, unknown where a part is."""
    if not registration.type.startswith("aws:"):
        return {}
    documents = {key: value for key, value in registration.inputs.items() if isinstance(value, dict) and "Statement" in value}
    return {key: UNKNOWN if has_unknown(value) else json.dumps(reveal(value), sort_keys=True) for key, value in documents.items()}


def answer(token: str, arguments: Mapping[str, Any]) -> Outputs | None:
    """What the provider function `token` answers, None when the rehearsal has no idea."""
    make = _FUNCTIONS.get(token)
    return None if make is None else make(arguments)


def _bucket(inputs: Mapping[str, Any], id_: str) -> Outputs:
    return {"bucket": inputs.get("bucket", id_), "arn": f"arn:aws:s3:::{id_}"}


def _role(_: Mapping[str, Any], id_: str) -> Outputs:
    return {"arn": f"arn:aws:iam::{ACCOUNT}:role/{id_}"}


def _cluster(inputs: Mapping[str, Any], id_: str) -> Outputs:
    vpc = inputs.get("vpcConfig") or {}
    service = {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"}
    return {
        "arn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{id_}",
        "endpoint": f"https://{id_}.eks.invalid",
        "certificateAuthority": {"data": _authority()},
        "identities": [{"oidcs": [{"issuer": _ISSUER.format(name=id_)}]}],
        "kubernetesNetworkConfig": {**(inputs.get("kubernetesNetworkConfig") or {}), **service},
        "vpcConfig": {**vpc, "clusterSecurityGroupId": "sg-00000000000000001", "vpcId": "vpc-00000000000000001"},
    }


def _found_cluster(arguments: Mapping[str, Any]) -> Outputs:
    name = str(arguments.get("name"))
    made = _cluster({}, name)
    subnets = ["subnet-00000000000000001", "subnet-00000000000000002"]
    return {
        "id": name,
        "name": name,
        "arn": made["arn"],
        "endpoint": made["endpoint"],
        "certificateAuthorities": [made["certificateAuthority"]],
        "identities": made["identities"],
        "kubernetesNetworkConfigs": [made["kubernetesNetworkConfig"]],
        "vpcConfig": {**made["vpcConfig"], "subnetIds": subnets},
        "region": arguments.get("region") or REGION,
        "version": KUBERNETES,
        "status": "ACTIVE",
    }


def _authority() -> str:
    return base64.b64encode(b"the rehearsal has no certificate authority at AWS").decode()


_TABLE: dict[str, Callable[[Mapping[str, Any], str], Outputs]] = {
    "aws:ec2/eip:Eip": lambda _, id_: {"allocationId": id_},
    "aws:ec2/launchTemplate:LaunchTemplate": lambda *_: {"latestVersion": 1, "defaultVersion": 1},
    "aws:efs/accessPoint:AccessPoint": lambda _, id_: {"arn": f"arn:aws:elasticfilesystem:{REGION}:{ACCOUNT}:access-point/{id_}"},
    "aws:efs/fileSystem:FileSystem": lambda _, id_: {
        "arn": f"arn:aws:elasticfilesystem:{REGION}:{ACCOUNT}:file-system/{id_}",
        "dnsName": f"{id_}.efs.invalid",
    },
    "aws:eks/cluster:Cluster": _cluster,
    "aws:eks/nodeGroup:NodeGroup": lambda _, id_: {"nodeGroupName": id_, "status": "ACTIVE"},
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": lambda inputs, _: {
        "arn": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{str(inputs.get('url')).removeprefix('https://')}"
    },
    "aws:iam/role:Role": _role,
    "aws:kms/key:Key": lambda _, id_: {"arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{id_}", "keyId": id_},
    "aws:s3/bucket:Bucket": _bucket,
}
_FUNCTIONS: dict[str, Callable[[Mapping[str, Any]], Outputs]] = {
    "aws:ec2/getAmi:getAmi": lambda _: {"state": "available"},
    "aws:ec2/getSubnet:getSubnet": lambda arguments: {"id": arguments.get("id")},
    "aws:efs/getAccessPoint:getAccessPoint": lambda arguments: {"id": arguments.get("accessPointId")},
    "aws:efs/getFileSystem:getFileSystem": lambda arguments: {"id": arguments.get("fileSystemId")},
    "aws:eks/getCluster:getCluster": _found_cluster,
    "aws:kms/getKey:getKey": lambda arguments: {"id": arguments.get("keyId")},
    "aws:s3/getBucket:getBucket": lambda arguments: {"id": arguments.get("bucket"), "bucket": arguments.get("bucket")},
    # Whoever rehearses has shown no credentials, and so is nobody.
    "aws:index/getCallerIdentity:getCallerIdentity": lambda _: {},
    "aws:index/getPartition:getPartition": lambda _: {"partition": "aws", "dnsSuffix": "amazonaws.com", "id": "aws"},
    "aws:index/getRegion:getRegion": lambda _: {"name": REGION, "region": REGION, "id": REGION},
}
