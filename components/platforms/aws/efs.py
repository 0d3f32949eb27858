"""An EFS file system as a model store: encrypted, mountable only from the pools, and exported as a claim.

Pods mount an access point over TLS, so they need neither root nor an AWS role. An existing file system is only mounted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.core import v1 as core

from components.handles import VolumeClaim
from components.naming import content_key
from components.platforms.aws.lookups import look_up, look_up_kms_key
from components.storage.static_volume import MountedStore, static_claim

if TYPE_CHECKING:
    from pulumi_aws import ec2, efs

    from components.platforms.aws.cluster_spec import EksClusterHandle
    from components.platforms.aws.store_spec import EfsStoreSpec

_DRIVER = "efs.csi.aws.com"
_NFS = 2049
# The file system grows automatically; Kubernetes only needs a number to match claim and volume.
_NOMINAL = "1Pi"


class EfsStore(pulumi.ComponentResource, MountedStore):
    """A file system with its volume and claim in `namespace`; exports `claim`.

    Nodes in the security groups `clients` may mount a created file system. `opts` needs an AWS and a Kubernetes provider;
    `namespace` and `scope` are those of `static_claim`.
    """

    def __init__(
        self,
        name: str,
        spec: EfsStoreSpec,
        *,
        home: EksClusterHandle,
        clients: Sequence[pulumi.Input[str]],
        namespace: pulumi.Output[str],
        scope: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:storage:EfsStore", name, {"spec": spec.intent()}, opts)
        if spec.file_system_id is not None:
            handle: pulumi.Input[str] = pulumi.Output.from_input(_existing_handle(name, spec, self))
            targets: list[pulumi.Resource] = []
        else:
            handle, targets = _file_system(name, spec, home, clients, self)
        key = content_key(name, json.dumps(spec.intent(), sort_keys=True))
        volume = core.PersistentVolumeSpecArgsDict(
            access_modes=["ReadWriteMany"],
            capacity={"storage": _NOMINAL},
            csi=core.CSIPersistentVolumeSourceArgsDict(driver=_DRIVER, volume_handle=handle),
        )
        # A pod that mounts before its zone has a mount target waits for minutes, and no field of the claim refers to the targets.
        claim_name, claim = static_claim(name, name, volume, key=key, scope=scope, namespace=namespace, parent=self, after=targets)
        # The origin names Jobs, so it must be known at plan time: the store's name if AWS assigns the id.
        origin = f"efs://{spec.file_system_id or f'{scope}/{name}'}{spec.path}"
        self.claim: VolumeClaim = VolumeClaim(name=claim_name, origin=origin, ready=claim)
        self.register_outputs({"claim": claim_name})


async def _existing_handle(name: str, spec: EfsStoreSpec, parent: EfsStore) -> str:
    """Return the volume handle of an existing file system. Raises now if it does not exist; otherwise pods would hang in the mount."""
    from pulumi_aws import efs

    path, options = f"storage.{name}", pulumi.InvokeOptions(parent=parent)
    remedy = "Correct it, check the cluster's region, or remove both ids to create a file system."
    system = {"fileSystemId": spec.file_system_id}
    await look_up(
        "aws:efs/getFileSystem:getFileSystem", system, efs.GetFileSystemResult, key=f"{path}.fileSystemId", remedy=remedy, options=options
    )
    point = await look_up(
        "aws:efs/getAccessPoint:getAccessPoint",
        {"accessPointId": spec.access_point_id},
        efs.GetAccessPointResult,
        key=f"{path}.accessPointId",
        remedy=remedy,
        options=options,
    )
    if point.file_system_id not in (None, spec.file_system_id):
        raise pulumi.RunError(
            f"{path}.accessPointId: {spec.access_point_id!r} belongs to {point.file_system_id}. Use an access point of {spec.file_system_id}."
        )
    return f"{spec.file_system_id}::{spec.access_point_id}"


def _file_system(
    name: str, spec: EfsStoreSpec, home: EksClusterHandle, clients: Sequence[pulumi.Input[str]], parent: EfsStore
) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
    """Create a file system; return its volume handle and the resources that must exist before it can be mounted."""
    from pulumi_aws import efs

    child = pulumi.ResourceOptions(parent=parent)
    # Policy, backups and access point are retained with the file system: without its policy it would admit root.
    retained = pulumi.ResourceOptions(parent=parent, protect=spec.retain, retain_on_delete=spec.retain)
    key: pulumi.Input[str] | None = spec.kms_key_arn
    if spec.kms_key_arn is not None:
        lookup = pulumi.InvokeOptions(parent=parent)
        key = pulumi.Output.from_input(look_up_kms_key(spec.kms_key_arn, key=f"storage.{name}.kmsKeyArn", options=lookup))
    system = efs.FileSystem(
        name,
        encrypted=True,
        kms_key_id=key,
        throughput_mode=spec.throughput_mode,
        tags={**home.tags, "Name": f"inferplan-{name}"},
        opts=retained,
    )
    efs.BackupPolicy(
        name,
        file_system_id=system.id,
        backup_policy=efs.BackupPolicyBackupPolicyArgs(status="ENABLED" if spec.backup else "DISABLED"),
        opts=retained,
    )
    point = _access_point(name, spec, system, retained)
    policy = efs.FileSystemPolicy(
        name, file_system_id=system.id, policy=pulumi.Output.json_dumps(_access_point_policy(system.arn, point.arn)), opts=retained
    )
    security_group = _security_group(name, home, clients, child)
    targets = [
        efs.MountTarget(f"{name}-{zone}", file_system_id=system.id, subnet_id=subnet, security_groups=[security_group.id], opts=child)
        for zone, subnet in home.subnets.items()
    ]
    return pulumi.Output.concat(system.id, "::", point.id), [*targets, policy]


def _access_point(name: str, spec: EfsStoreSpec, system: efs.FileSystem, retained: pulumi.ResourceOptions) -> efs.AccessPoint:
    from pulumi_aws import efs

    user = spec.run_as_user
    owner = efs.AccessPointRootDirectoryCreationInfoArgs(owner_uid=user, owner_gid=user, permissions="0750")
    return efs.AccessPoint(
        name,
        file_system_id=system.id,
        posix_user=efs.AccessPointPosixUserArgs(uid=user, gid=user),
        root_directory=efs.AccessPointRootDirectoryArgs(path=spec.path, creation_info=owner),
        opts=retained,
    )


def _access_point_policy(system_arn: pulumi.Input[str], point_arn: pulumi.Input[str]) -> dict[str, object]:
    """Return a policy that allows mounts only through the access point over TLS. Without one, EFS admits root from any mount target."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                # Mounts have no AWS identity to name: the conditions decide.
                "Principal": {"AWS": "*"},
                "Action": ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
                "Resource": system_arn,
                "Condition": {
                    "Bool": {"elasticfilesystem:AccessedViaMountTarget": "true", "aws:SecureTransport": "true"},
                    "StringEquals": {"elasticfilesystem:AccessPointArn": point_arn},
                },
            }
        ],
    }


def _security_group(
    name: str, home: EksClusterHandle, clients: Sequence[pulumi.Input[str]], child: pulumi.ResourceOptions
) -> ec2.SecurityGroup:
    from pulumi_aws import ec2

    return ec2.SecurityGroup(
        f"{name}-nfs",
        description=f"NFS to store {name}, from the nodes of its pools only",
        vpc_id=home.vpc,
        ingress=[
            ec2.SecurityGroupIngressArgs(
                description="NFS from nodes", protocol="tcp", from_port=_NFS, to_port=_NFS, security_groups=list(clients)
            )
        ],
        # A mount target only responds, which needs no rule; the empty list removes EC2's default rule.
        egress=[],
        opts=child,
    )
