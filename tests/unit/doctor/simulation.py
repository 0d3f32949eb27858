"""The requests of an `up` and a `down` of a recorded stack, with the resources and the condition
keys that IAM would see.

Which actions a resource takes, and which types of resources and keys IAM checks for an action, is
`recorded_calls.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from inferplan.pulumi_engine.recording import Recording, Registration
from tests.unit.aws.evaluator import Request
from tests.unit.doctor.recorded_calls import FILE

CALLS: Mapping[str, Any] = json.loads(FILE.read_text())
ACCOUNT = "111122223333"
_TAG = "inferplan.dev/stack"
_ACTIONS = {action.lower(): action for action in CALLS["actions"]}
# Types of resources that a call touches although IAM's reference does not call them required.
_TOUCHED = {
    "ec2:CreateNatGateway": ("elastic-ip", "subnet"), "ec2:CreateSecurityGroup": ("vpc",), "ec2:CreateVpcEndpoint": ("vpc", "route-table"),
    "ec2:AssociateRouteTable": ("route-table", "subnet"), "ec2:AttachInternetGateway": ("internet-gateway", "vpc"),
}  # fmt: skip
# The types of resources in the words of IAM's reference; those that a node group's nodes are tagged
# as.
_KINDS = {
    "eip": "elasticip",
    "defaultsecuritygroup": "securitygroup",
    "routetableassociation": "routetable",
    "nodegroup": "instance volume nodegroup",
}
_PASSED = {"aws:eks/podIdentityAssociation:PodIdentityAssociation": "pods.eks.amazonaws.com"}
_VIA = {"eks": "eks", "efs": "elasticfilesystem", "s3": "s3"}


@dataclass(frozen=True)
class Call:
    """One request of one resource of the stack. `writes` is false for an action that only reads or
    lists.
    """

    name: str
    phase: str
    request: Request
    writes: bool


@dataclass(frozen=True)
class Place:
    """The names that requests have: those of the stack, or of somebody else's resources of the same
    types.
    """

    cluster: str
    stack: str
    region: str
    boundary: str
    names: Mapping[str, str]
    service_role: str = (
        f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS"
    )
    own: str = ""
    """The stack whose tag a request may set, if it is not `stack`."""


def calls(recording: Recording, place: Place) -> Iterator[Call]:
    for each in recording:
        if each.type in CALLS["types"] and not each.read:
            row = CALLS["types"][each.type]
            phases = {phase: row[phase] for phase in ("plan", "apply", "modify", "destroy")}
            phases |= {
                f"apply {name}": actions
                for name, actions in row["attributes"].items()
                if name == "tags" or _camel(name) in each.inputs
            }
            for phase, actions in phases.items():
                for action in actions:
                    if (known := _ACTIONS.get(action.lower())) is not None:
                        yield from _requests(each, phase, known, place)


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def _requests(resource: Registration, phase: str, action: str, place: Place) -> Iterator[Call]:
    row = CALLS["actions"][action]
    kinds = {
        kind: each
        for kind, each in row["resources"].items()
        if each["required"] or kind in _TOUCHED.get(action, ())
    }
    service, creates = (
        action.partition(":")[0],
        re.match(r"\w+:(Create|Allocate|Run|Tag|Put)", action) is not None,
    )
    if not kinds:  # one of several types, as for tags
        own = resource.type.rpartition(":")[2].lower()
        kinds = {
            kind: each
            for kind, each in row["resources"].items()
            if kind and kind.replace("-", "") in _KINDS.get(own, own)
        }
    shared = row["resources"].get("", {"keys": []})["keys"]
    for kind, each in (kinds or {"": row["resources"].get("", {"keys": []})}).items():
        keys, context = (
            {*each["keys"], *shared},
            {"aws:RequestedRegion": "us-east-1" if service == "iam" else place.region},
        )
        new = (
            creates
            and kind != ""
            and (
                kind.replace("-", "") == action.lower().partition(":create")[2]
                or action == "ec2:AllocateAddress"
                or kind in ("instance", "volume")
            )
        )
        if (
            "aws:RequestTag/${TagKey}" in keys
            and creates
            and (new or not kind or action == "ec2:CreateTags" or "Tag" in action)
        ):
            context[f"aws:RequestTag/{_TAG}"] = place.own or place.stack
        if "aws:ResourceTag/${TagKey}" in keys and not new and phase.partition(" ")[0] != "plan":
            context[f"aws:ResourceTag/{_TAG}"] = place.stack
        fixed = {
            "iam:PermissionsBoundary": place.boundary,
            "iam:PolicyARN": resource.inputs.get("policyArn"),
            "iam:PassedToService": _PASSED.get(resource.type, "eks.amazonaws.com"),
            "kms:ViaService": (
                f"{_VIA.get(resource.type.split('/')[0].removeprefix('aws:'), 'ec2')}.{place.region}.amazonaws.com"
            ),
            "ec2:IsLaunchTemplateResource": "true",
        }
        context |= {key: value for key, value in fixed.items() if key in keys and value}
        if action == "iam:CreateServiceLinkedRole":
            yield Call(
                f"{resource.type} {resource.name}",
                phase,
                Request(action, place.service_role, context=context),
                True,
            )
            continue
        arn = _arn(CALLS["arns"].get(f"{service}:{kind}", "*"), resource, place)
        yield Call(
            f"{resource.type} {resource.name}",
            phase,
            Request(action, arn, context=context),
            row["access"] not in ("Read", "List"),
        )


def _arn(template: str, resource: Registration, place: Place) -> str:
    values = {
        "Partition": "aws", "Region": place.region, "Account": ACCOUNT, "ClusterName": place.cluster,
        "RoleNameWithPath": place.names.get("role") or f"{resource.name if 'role:' in resource.type else _role(resource)}-1a2b3c4",
        "BucketName": place.names.get("bucket") or str(resource.inputs.get("bucket")),
        "LogGroupName": f"/aws/eks/{place.cluster}/cluster",
        "InstanceProfileNameWithPath": place.names.get("profile") or "eks-1",
        "OidcProviderName": place.names.get("oidc") or f"oidc.eks.{place.region}.amazonaws.com/id/1",
    }  # fmt: skip
    return re.sub(r"\$\{(\w+)\}", lambda match: values.get(match[1], "x1"), template)


def _role(resource: Registration) -> str:
    """The name of the role that a policy or an association belongs to."""
    role = (
        resource.inputs.get("role")
        or resource.inputs.get("roleArn")
        or resource.inputs.get("nodeRoleArn")
        or ""
    )
    return re.sub(r"-[0-9a-f]{8}$", "", str(role).rpartition("/")[2]) or resource.name
