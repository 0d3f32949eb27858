"""An EFS file system as a model store: encrypted, mountable over TLS from the pools only, and
exported as a claim.
"""

import json
from collections.abc import Sequence

import pulumi
from pulumi_aws import ec2, efs

from inferplan.components.kubernetes import core
from inferplan.components.naming import content_key
from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.iam import access_point_only
from inferplan.components.platforms.aws.lookups import look_up, look_up_kms_key
from inferplan.components.platforms.aws.store_spec import EfsStoreSpec
from inferplan.components.sources import VolumeClaim
from inferplan.components.storage.static_volume import static_claim

_DRIVER = "efs.csi.aws.com"
_NFS = 2049
# The file system grows automatically; Kubernetes only needs a number to match claim and volume.
_NOMINAL = "1Pi"
_SAME_VOLUME = {"throughput_mode", "backup", "open_to", "retain"}


class EfsStore(pulumi.ComponentResource):
    """A file system with its volume and claim in `namespace`; exports `claim`.

    Nodes in the security groups `clients` may mount a created file system. `opts` needs an AWS and
    a Kubernetes provider; `namespace` and `scope` are those of `static_claim`.
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
        # Only what decides which files a pod sees makes another volume: neither backups nor a
        # default that is written out.
        volume_fields = spec.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude=_SAME_VOLUME
        )
        key = content_key(name, json.dumps(volume_fields, sort_keys=True))
        volume: core.PersistentVolumeSpecArgsDict = {
            "access_modes": ["ReadWriteMany"],
            "capacity": {"storage": _NOMINAL},
            "csi": {"driver": _DRIVER, "volume_handle": handle},
        }
        # A pod that mounts before its zone has a mount target waits for minutes, and no field of
        # the claim refers to the targets.
        claim_name, claim = static_claim(
            name,
            name,
            volume,
            key=key,
            scope=scope,
            namespace=namespace,
            parent=self,
            after=targets,
        )
        # The origin names Jobs, so it must be known at plan time: the store's name if AWS assigns
        # the id.
        origin = f"efs://{spec.file_system_id or f'{scope}/{name}'}{spec.path}"
        self.claim: VolumeClaim = VolumeClaim(name=claim_name, origin=origin, ready=claim)
        self.register_outputs({"claim": claim_name})


async def _existing_handle(name: str, spec: EfsStoreSpec, parent: EfsStore) -> str:
    """Return the volume handle of an existing file system. Raises now if it does not exist;
    otherwise pods would hang in the mount.
    """
    path, options = f"storage.{name}", pulumi.InvokeOptions(parent=parent)
    remedy = "Correct it, check the cluster's region, or remove both ids to create a file system."
    token, system = "aws:efs/getFileSystem:getFileSystem", {"fileSystemId": spec.file_system_id}
    await look_up(
        token,
        system,
        efs.GetFileSystemResult,
        key=f"{path}.fileSystemId",
        remedy=remedy,
        options=options,
    )
    token, access_point = (
        "aws:efs/getAccessPoint:getAccessPoint",
        {"accessPointId": spec.access_point_id},
    )
    key = f"{path}.accessPointId"
    point = await look_up(
        token, access_point, efs.GetAccessPointResult, key=key, remedy=remedy, options=options
    )
    if point.file_system_id not in (None, spec.file_system_id):
        raise pulumi.RunError(
            f"{key}: {spec.access_point_id!r} belongs to {point.file_system_id}. Use an access"
            f" point of {spec.file_system_id}."
        )
    return f"{spec.file_system_id}::{spec.access_point_id}"


def _file_system(
    name: str,
    spec: EfsStoreSpec,
    home: EksClusterHandle,
    clients: Sequence[pulumi.Input[str]],
    parent: EfsStore,
) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
    """Create a file system; return its volume handle and the resources that must exist before it
    can be mounted.
    """
    child = pulumi.ResourceOptions(parent=parent)
    # Policy, backups and access point are retained with the file system: without its policy it
    # would admit root.
    retained = pulumi.ResourceOptions(
        parent=parent, protect=spec.retain, retain_on_delete=spec.retain
    )
    key: pulumi.Input[str] | None = spec.kms_key_arn
    if spec.kms_key_arn is not None:
        lookup = pulumi.InvokeOptions(parent=parent)
        key = pulumi.Output.from_input(
            look_up_kms_key(spec.kms_key_arn, key=f"storage.{name}.kmsKeyArn", options=lookup)
        )
    tags = {**home.tags, "Name": f"inferplan-{name}"}
    mode = spec.throughput_mode
    system = efs.FileSystem(
        name, encrypted=True, kms_key_id=key, throughput_mode=mode, tags=tags, opts=retained
    )
    efs.BackupPolicy(
        name,
        file_system_id=system.id,
        backup_policy={"status": "ENABLED" if spec.backup else "DISABLED"},
        opts=retained,
    )
    user = spec.run_as_user
    point = efs.AccessPoint(
        name,
        file_system_id=system.id,
        posix_user={"uid": user, "gid": user},
        root_directory={
            "path": spec.path,
            "creation_info": {"owner_uid": user, "owner_gid": user, "permissions": "0750"},
        },
        opts=retained,
    )
    document = pulumi.Output.json_dumps(access_point_only(system.arn, point.arn))
    policy = efs.FileSystemPolicy(name, file_system_id=system.id, policy=document, opts=retained)
    security_group = _nfs_from(clients, name, home, child)
    targets = [
        efs.MountTarget(
            f"{name}-{zone}",
            file_system_id=system.id,
            subnet_id=subnet,
            security_groups=[security_group.id],
            opts=child,
        )
        for zone, subnet in home.subnets.items()
    ]
    return pulumi.Output.concat(system.id, "::", point.id), [*targets, policy]


def _nfs_from(
    clients: Sequence[pulumi.Input[str]],
    name: str,
    home: EksClusterHandle,
    opts: pulumi.ResourceOptions,
) -> ec2.SecurityGroup:
    nfs: ec2.SecurityGroupIngressArgsDict = {
        "description": "NFS from nodes",
        "protocol": "tcp",
        "from_port": _NFS,
        "to_port": _NFS,
    }
    return ec2.SecurityGroup(
        f"{name}-nfs",
        description=f"NFS to store {name}, from the nodes of its pools only",
        vpc_id=home.vpc,
        ingress=[{**nfs, "security_groups": list(clients)}],
        # A mount target only responds, which needs no rule; the empty list removes EC2's default
        # rule.
        egress=[],
        opts=opts,
    )
