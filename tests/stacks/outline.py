"""A stack's outline for review: each resource under its parent, with the inputs that decide what it
is and what it costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from inferplan.pulumi_engine.recording import Recording, Registration
from inferplan.pulumi_engine.values import UNKNOWN, Secret

# Types to the paths of inputs that a reviewer looks at; a resource of another type is told by type
# and name alone.
KEY_INPUTS: Mapping[str, tuple[str, ...]] = {
    "aws:ec2/launchTemplate:LaunchTemplate": (
        "instanceType",
        "imageId",
        "blockDeviceMappings",
        "metadataOptions",
        "instanceMarketOptions",
    ),
    "aws:ec2/securityGroup:SecurityGroup": ("ingress", "egress"),
    "aws:ec2/subnet:Subnet": ("availabilityZone", "cidrBlock"),
    "aws:efs/fileSystem:FileSystem": ("encrypted", "throughputMode"),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": ("principalArn", "policyArn"),
    "aws:eks/addon:Addon": ("addonName", "configurationValues"),
    "aws:eks/cluster:Cluster": (
        "name",
        "version",
        "enabledClusterLogTypes",
        "vpcConfig.endpointPublicAccess",
        "vpcConfig.publicAccessCidrs",
    ),
    "aws:eks/nodeGroup:NodeGroup": (
        "version",
        "amiType",
        "capacityType",
        "instanceTypes",
        "scalingConfig",
        "taints",
        "updateConfig",
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": ("namespace", "serviceAccount"),
    "aws:iam/role:Role": ("assumeRolePolicy",),
    "aws:iam/rolePolicy:RolePolicy": ("policy",),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ("policyArn",),
    "aws:s3/bucket:Bucket": ("bucket",),
    "aws:s3/bucketPolicy:BucketPolicy": ("policy",),
    "kubernetes:apps/v1:DaemonSet": ("spec.template.spec.containers[0].image",),
    "kubernetes:apps/v1:Deployment": (
        "spec.replicas",
        "spec.template.spec.nodeSelector",
        "spec.template.spec.containers[0].image",
        "spec.template.spec.containers[0].resources",
    ),
    "kubernetes:batch/v1:Job": (
        "spec.activeDeadlineSeconds",
        "spec.template.spec.serviceAccountName",
    ),
    "kubernetes:core/v1:PersistentVolume": (
        "spec.csi",
        "spec.nfs",
        "spec.persistentVolumeReclaimPolicy",
    ),
    "kubernetes:core/v1:ResourceQuota": ("spec.hard",),
    "kubernetes:core/v1:Secret": ("type", "data", "stringData"),
    "kubernetes:core/v1:Service": ("spec.type", "spec.ports"),
    "kubernetes:networking.k8s.io/v1:Ingress": ("spec.ingressClassName", "spec.tls"),
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": (
        "spec.policyTypes",
        "spec.ingress",
        "spec.egress",
    ),
    "kubernetes:policy/v1:PodDisruptionBudget": ("spec.maxUnavailable",),
    "pulumi:providers:aws": ("region", "allowedAccountIds"),
}
# Names that carry their content would have each change of a payload shown in each stack.
_CONTENT_KEY = re.compile(r"-[0-9a-f]{10}(?=$|-r\d+$)")
_MARKS = {
    "protect": "protected",
    "retain_on_delete": "kept on destroy",
    "ignore_changes": "ignores",
}


def outline(recording: Recording) -> str:
    """The whole stack as indented text, children under parents in the order of their names; secrets
    masked.
    """
    return "\n".join(_lines(recording, recording.stack_urn, 0)) + "\n"


def _lines(recording: Recording, parent: str, depth: int) -> Iterator[str]:
    for each in sorted(
        recording.children(parent), key=lambda child: (child.type, _CONTENT_KEY.sub("", child.name))
    ):
        yield (
            f"{'  ' * depth}{each.type} {_CONTENT_KEY.sub('-<content>', each.name)}{_options(each)}"
        )
        for path in KEY_INPUTS.get(each.type, ()):
            value = _at(each.inputs, path)
            if value is not None:
                yield f"{'  ' * depth}    {path}: {_shown(value)}"
        yield from _lines(recording, each.urn, depth + 1)


def _options(each: Registration) -> str:
    marks = []
    for option, word in _MARKS.items():
        value = getattr(each.options, option)
        if value:
            marks.append(word if value is True else f"{word} {', '.join(value)}")
    return f"  [{'; '.join(marks)}]" if marks else ""


def _at(inputs: Any, path: str) -> Any:
    here = inputs
    for part in path.replace("]", "").replace("[", ".").split("."):
        if isinstance(here, list):
            here = here[int(part)] if int(part) < len(here) else None
        elif isinstance(here, Mapping):
            here = here.get(part)
        else:
            return here
    return here


def _shown(value: Any) -> str:
    if isinstance(value, Secret):
        return "[secret]"
    if value is UNKNOWN:
        return "[known after the update]"
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in sorted(value.items())) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    return str(value)
