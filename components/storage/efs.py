"""An EFS file system as a store: encrypted, mountable from the pools only, and lent as the claim that any share is.

It mounts by an access point over TLS, so pods need neither root nor an AWS role. An adopted file system is only mounted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.core import v1 as core

from components.handles import VolumeClaim
from components.lookups import kms_key, look_up
from components.naming import content_key
from components.storage.static_volume import static_claim

if TYPE_CHECKING:
    from pulumi_aws import ec2, efs

    from components.handles import EksClusterHandle
    from components.storage.aws_spec import EfsStoreSpec

_DRIVER = "efs.csi.aws.com"
_NFS = 2049
# The file system grows by itself; Kubernetes only wants a figure to match claim and volume by.
_NOMINAL = "1Pi"


class EfsStore(pulumi.ComponentResource):
    """A file system with its volume and claim in `namespace`; lends `claim`.

    Machines of the security groups `clients` may mount what is created. Takes an AWS and a Kubernetes provider in `opts`;
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
            handle: pulumi.Input[str] = pulumi.Output.from_input(_adopted(name, spec, self))
            targets: list[pulumi.Resource] = []
        else:
            handle, targets = _file_system(name, spec, home, clients, self)
        key = content_key(name, json.dumps(spec.intent(), sort_keys=True))
        volume = core.PersistentVolumeSpecArgs(
            access_modes=["ReadWriteMany"],
            capacity={"storage": _NOMINAL},
            csi=core.CSIPersistentVolumeSourceArgs(driver=_DRIVER, volume_handle=handle),
        )
        # A pod that mounts before a zone has its mount target waits for minutes; no field of the claim names the targets.
        claim_name, claim = static_claim(name, name, volume, key=key, scope=scope, namespace=namespace, parent=self, after=targets)
        # What identifies the files must be known at plan time, since it names Jobs: the store's own name where AWS gives the id.
        origin = f"efs://{spec.file_system_id or f'{scope}/{name}'}{spec.path}"
        self.claim: VolumeClaim = VolumeClaim(name=claim_name, origin=origin, ready=claim)
        self.register_outputs({"claim": claim_name})


async def _adopted(name: str, spec: EfsStoreSpec, parent: EfsStore) -> str:
    """The volume handle of a file system that exists. One that does not is told now, and not by pods that hang in a mount."""
    from pulumi_aws import efs

    here, options = f"storage.{name}", pulumi.InvokeOptions(parent=parent)
    remedy = "correct it, look in the cluster's region, or leave both ids out to create one"
    system = {"fileSystemId": spec.file_system_id}
    await look_up(
        "aws:efs/getFileSystem:getFileSystem", system, efs.GetFileSystemResult, key=f"{here}.fileSystemId", remedy=remedy, options=options
    )
    point = await look_up(
        "aws:efs/getAccessPoint:getAccessPoint",
        {"accessPointId": spec.access_point_id},
        efs.GetAccessPointResult,
        key=f"{here}.accessPointId",
        remedy=remedy,
        options=options,
    )
    if point.file_system_id not in (None, spec.file_system_id):
        raise pulumi.RunError(
            f"{here}.accessPointId: {spec.access_point_id!r} belongs to {point.file_system_id}; name one of {spec.file_system_id}"
        )
    return f"{spec.file_system_id}::{spec.access_point_id}"


def _file_system(
    name: str, spec: EfsStoreSpec, home: EksClusterHandle, clients: Sequence[pulumi.Input[str]], parent: EfsStore
) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
    """A created file system: its volume handle, and what must be there before it can be mounted."""
    from pulumi_aws import efs

    child = pulumi.ResourceOptions(parent=parent)
    # What says who may use the files, and keeps their backups, stays with them: a file system without its policy lets root in.
    kept = pulumi.ResourceOptions(parent=parent, protect=spec.retain, retain_on_delete=spec.retain)
    key: pulumi.Input[str] | None = spec.kms_key_arn
    if spec.kms_key_arn is not None:
        look = pulumi.InvokeOptions(parent=parent)
        key = pulumi.Output.from_input(kms_key(spec.kms_key_arn, key=f"storage.{name}.kmsKeyArn", options=look))
    system = efs.FileSystem(
        name,
        encrypted=True,
        kms_key_id=key,
        throughput_mode=spec.throughput_mode,
        tags={**home.tags, "Name": f"inferplan-{name}"},
        opts=kept,
    )
    efs.BackupPolicy(
        name,
        file_system_id=system.id,
        backup_policy=efs.BackupPolicyBackupPolicyArgs(status="ENABLED" if spec.backup else "DISABLED"),
        opts=kept,
    )
    point = _access_point(name, spec, system, kept)
    policy = efs.FileSystemPolicy(
        name, file_system_id=system.id, policy=pulumi.Output.json_dumps(_only_by_access_point(system.arn, point.arn)), opts=kept
    )
    wall = _open_to(name, home, clients, child)
    targets = [
        efs.MountTarget(f"{name}-{zone}", file_system_id=system.id, subnet_id=subnet, security_groups=[wall.id], opts=child)
        for zone, subnet in home.subnets.items()
    ]
    return pulumi.Output.concat(system.id, "::", point.id), [*targets, policy]


def _access_point(name: str, spec: EfsStoreSpec, system: efs.FileSystem, kept: pulumi.ResourceOptions) -> efs.AccessPoint:
    from pulumi_aws import efs

    user = spec.run_as_user
    owner = efs.AccessPointRootDirectoryCreationInfoArgs(owner_uid=user, owner_gid=user, permissions="0750")
    return efs.AccessPoint(
        name,
        file_system_id=system.id,
        posix_user=efs.AccessPointPosixUserArgs(uid=user, gid=user),
        root_directory=efs.AccessPointRootDirectoryArgs(path=spec.path, creation_info=owner),
        opts=kept,
    )


def _only_by_access_point(system_arn: pulumi.Input[str], point_arn: pulumi.Input[str]) -> dict[str, object]:
    """Without a policy EFS lets whoever reaches a mount target in as root; with this one, only by the access point and over TLS."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                # Mounts carry no AWS identity, so there is none to name: the conditions are what decides.
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


def _open_to(name: str, home: EksClusterHandle, clients: Sequence[pulumi.Input[str]], child: pulumi.ResourceOptions) -> ec2.SecurityGroup:
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
        # A mount target only answers, which needs no rule; the empty list takes the one that EC2 adds away.
        egress=[],
        opts=child,
    )
