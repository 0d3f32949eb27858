"""Decisions of the AWS provider (`aws.toml`): which changes replace a resource; and stub outputs
that look like no real account.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from inferplan.kube.paths import Path, parse
from inferplan.pulumi_engine.recording import Registration
from inferplan.pulumi_engine.values import UNKNOWN, has_unknown, reveal
from inferplan.tables import table

Outputs = dict[str, Any]
ACCOUNT = "000000000000"
REGION = "us-east-1"

TYPES: Final[dict[str, Any]] = table("pulumi_engine/providers/aws.toml")


def replacing_patterns(type_: str) -> tuple[Path, ...]:
    """Patterns of the paths whose change replaces a resource of `type_`."""
    return tuple(parse(text) for text in TYPES.get(type_, {}).get("replaces", ()))


def lowered_patterns(
    type_: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[Path, ...]:
    """Patterns of the numbers of `after` that replace a resource of `type_` because they are lower
    than before.
    """
    pairs = (
        (name, before.get(name), after.get(name))
        for name in TYPES.get(type_, {}).get("lowered", ())
    )
    return tuple(
        (name,)
        for name, old, new in pairs
        if isinstance(old, int | float) and isinstance(new, int | float) and new < old
    )


def realize(registration: Registration) -> tuple[str, Outputs]:
    """The id and the outputs of a stub of `registration`."""
    digits = hashlib.sha256(registration.urn.encode()).hexdigest()[:8]
    if registration.type.startswith("aws:"):
        id_ = _aws_id(registration, digits)
        return id_, {**registration.inputs, **_aws_outputs(registration, id_)}
    return f"{registration.name}-{digits}", dict(registration.inputs)


def _aws_id(registration: Registration, digits: str) -> str:
    if prefix := TYPES.get(registration.type, {}).get("id"):
        return f"{prefix}-{digits:0>17}"
    for key in ("bucket", "name"):
        name = registration.inputs.get(key)
        if isinstance(name, str):
            return name
    return f"{registration.name}-{digits}"


def _aws_outputs(registration: Registration, id_: str) -> Outputs:
    service = registration.type.split(":")[1].partition("/")[0]
    outputs: Outputs = {"arn": f"arn:aws:{service}:{REGION}:{ACCOUNT}:{id_}"}
    if "name" not in registration.inputs:
        outputs["name"] = id_
    templates = TYPES.get(registration.type, {}).get("outputs", {})
    outputs |= {
        key: template.format(id=id_, region=REGION, account=ACCOUNT)
        for key, template in templates.items()
    }
    make = _OUTPUTS.get(registration.type)
    return outputs | (make(registration.inputs, id_) if make else {})


def document_texts(registration: Registration) -> Outputs:
    """The policy documents of the inputs as the provider returns them: JSON text, unknown if a part
    is unknown.
    """
    if not registration.type.startswith("aws:"):
        return {}
    documents = {
        key: value
        for key, value in registration.inputs.items()
        if isinstance(value, dict) and "Statement" in value
    }
    return {
        key: UNKNOWN if has_unknown(value) else json.dumps(reveal(value), sort_keys=True)
        for key, value in documents.items()
    }


def answer(token: str, arguments: Mapping[str, Any]) -> Outputs | None:
    """The result of the provider function `token`; None without a stub."""
    make = _FUNCTIONS.get(token)
    return None if make is None else make(arguments)


def preview(registration: Registration) -> Outputs | None:
    """The inputs with the fields that AWS sets inside one of them as unknown; None for a type
    without such fields.
    """
    below = _SET_BY_AWS.get(registration.type, {})
    parts = {
        key: {**registration.inputs.get(key, {}), **dict.fromkeys(names, UNKNOWN)}
        for key, names in below.items()
    }
    return {**registration.inputs, **parts} if parts else None


def _cluster(inputs: Mapping[str, Any], id_: str) -> Outputs:
    vpc = inputs.get("vpcConfig") or {}
    service = {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"}
    return {
        "arn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{id_}",
        "endpoint": f"https://{id_}.eks.invalid",
        "certificateAuthority": {
            "data": base64.b64encode(b"a rehearsal has no certificate authority at AWS").decode()
        },
        "identities": [{"oidcs": [{"issuer": f"https://oidc.invalid/id/{id_}"}]}],
        "kubernetesNetworkConfig": {**(inputs.get("kubernetesNetworkConfig") or {}), **service},
        "vpcConfig": {
            **vpc,
            "clusterSecurityGroupId": "sg-00000000000000001",
            "vpcId": "vpc-00000000000000001",
        },
    }


def _existing_cluster(arguments: Mapping[str, Any]) -> Outputs:
    name = str(arguments.get("name"))
    cluster = _cluster({}, name)
    subnets = ["subnet-00000000000000001", "subnet-00000000000000002"]
    return {
        "id": name,
        "name": name,
        "arn": cluster["arn"],
        "endpoint": cluster["endpoint"],
        "certificateAuthorities": [cluster["certificateAuthority"]],
        "identities": cluster["identities"],
        "kubernetesNetworkConfigs": [cluster["kubernetesNetworkConfig"]],
        "vpcConfig": {**cluster["vpcConfig"], "subnetIds": subnets},
        "region": arguments.get("region") or REGION,
        "version": "1.34",
        "status": "ACTIVE",
    }


_OUTPUTS: dict[str, Callable[[Mapping[str, Any], str], Outputs]] = {
    "aws:ec2/launchTemplate:LaunchTemplate": lambda *_: {"latestVersion": 1, "defaultVersion": 1},
    "aws:eks/cluster:Cluster": _cluster,
    "aws:s3/bucket:Bucket": lambda inputs, id_: {"bucket": inputs.get("bucket", id_)},
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": lambda inputs, _: {
        "arn": (
            f"arn:aws:iam::{ACCOUNT}:oidc-provider/{str(inputs.get('url')).removeprefix('https://')}"
        )
    },
}
# Without them the SDK takes a field that the program did not write for empty.
_SET_BY_AWS = {"aws:eks/cluster:Cluster": {"vpcConfig": ("clusterSecurityGroupId", "vpcId")}}
# Functions that return more than the arguments. Their stub results are for rehearsals, which have
# no unknown values.
KNOWN_BY_AWS = frozenset({"aws:eks/getCluster:getCluster"})
_FUNCTIONS: dict[str, Callable[[Mapping[str, Any]], Outputs]] = {
    "aws:ec2/getAmi:getAmi": lambda _: {"state": "available"},
    "aws:ec2/getRouteTables:getRouteTables": lambda _: {"ids": []},
    "aws:ec2/getSubnet:getSubnet": lambda arguments: {"id": arguments.get("id")},
    "aws:efs/getAccessPoint:getAccessPoint": lambda arguments: {
        "id": arguments.get("accessPointId")
    },
    "aws:efs/getFileSystem:getFileSystem": lambda arguments: {"id": arguments.get("fileSystemId")},
    "aws:eks/getCluster:getCluster": _existing_cluster,
    "aws:kms/getKey:getKey": lambda arguments: {"id": arguments.get("keyId")},
    "aws:s3/getBucket:getBucket": lambda arguments: {
        "id": arguments.get("bucket"),
        "bucket": arguments.get("bucket"),
    },
    # A rehearsal uses no credentials, so the caller has no identity.
    "aws:index/getCallerIdentity:getCallerIdentity": lambda _: {},
    "aws:index/getPartition:getPartition": lambda _: {
        "partition": "aws",
        "dnsSuffix": "amazonaws.com",
        "id": "aws",
    },
    "aws:index/getRegion:getRegion": lambda _: {"name": REGION, "region": REGION, "id": REGION},
}
