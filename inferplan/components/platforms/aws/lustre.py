"""An FSx for Lustre file system of the stack as a model store: encrypted, open to nodes only, and
exported as a claim.
"""

import json
from collections.abc import Sequence
from typing import cast

import pulumi
from pulumi_aws import ec2, fsx

from inferplan.components.kubernetes import core
from inferplan.components.naming import content_key
from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.lookups import look_up_kms_key
from inferplan.components.platforms.aws.lustre_spec import DataRepository, FsxStoreSpec
from inferplan.components.sources import VolumeClaim
from inferplan.components.storage.static_volume import static_claim
from inferplan.kube.quantity import bytes_of

# "File system access control with Amazon VPC", FSx for Lustre user guide: clients and file servers
# connect to each other on these ports.
_PORTS = ((988, 988), (1018, 1023))
# The last version, which data repositories need (2.12 or newer).
_LUSTRE = "2.15"
_BACKUP_DAYS = 7
# A change of these replaces the file system or its volume, so the volume gets another name. A lower
# capacity replaces the file system too, but a higher one keeps it, and the program does not know
# the old capacity: the volume keeps its name, and Kubernetes does not delete the old volume while
# its claim exists. docs/storage.md tells users to create a new store instead.
_IDENTITY = {"deployment_type", "zone", "kms_key_arn", "mount_options"}


class FsxStore(pulumi.ComponentResource):
    """A file system with its volume and claim in `namespace`; exports `claim`.

    Nodes in the security groups `clients` may mount it. `opts` needs an AWS and a Kubernetes
    provider; `namespace` and `scope` are those of `static_claim`.
    """

    def __init__(
        self,
        name: str,
        spec: FsxStoreSpec,
        *,
        home: EksClusterHandle,
        clients: Sequence[pulumi.Input[str]],
        namespace: pulumi.Output[str],
        scope: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:storage:FsxStore", name, {"spec": spec.intent()}, opts)
        system, ready = _file_system(name, spec, home, clients, self)
        identity = spec.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, include=_IDENTITY
        )
        volume = spec.volume_of(system.id, system.dns_name, system.mount_name)
        claim_name, claim = static_claim(
            name,
            name,
            cast("core.PersistentVolumeSpecArgsDict", volume),
            key=content_key(name, json.dumps(identity, sort_keys=True)),
            scope=scope,
            namespace=namespace,
            parent=self,
            after=ready,
        )
        # The origin names Jobs, so it must be known at plan time: AWS assigns the id.
        self.claim: VolumeClaim = VolumeClaim(
            name=claim_name, origin=f"fsx://{scope}/{name}", ready=claim
        )
        self.register_outputs({"claim": claim_name})


def _file_system(
    name: str,
    spec: FsxStoreSpec,
    home: EksClusterHandle,
    clients: Sequence[pulumi.Input[str]],
    parent: FsxStore,
) -> tuple[fsx.LustreFileSystem, list[pulumi.Resource]]:
    """Create a file system; return it and the resources that must exist before it can be mounted."""
    # The security group belongs to the network interfaces of the file system, and the associations
    # to its files: both are kept with it.
    retained = pulumi.ResourceOptions(
        parent=parent, protect=spec.retain, retain_on_delete=spec.retain
    )
    key: pulumi.Input[str] | None = spec.kms_key_arn
    if spec.kms_key_arn is not None:
        lookup = pulumi.InvokeOptions(parent=parent)
        key = pulumi.Output.from_input(
            look_up_kms_key(spec.kms_key_arn, key=f"storage.{name}.kmsKeyArn", options=lookup)
        )
    group = _security_group(name, home, clients, retained)
    persistent = spec.deployment_type == "PERSISTENT_2"
    keeps_none = 0 if persistent and not spec.data_repositories else None
    system = fsx.LustreFileSystem(
        name,
        deployment_type=spec.deployment_type,
        file_system_type_version=_LUSTRE,
        storage_capacity=int(bytes_of(spec.capacity or "0")) // 2**30,
        per_unit_storage_throughput=spec.per_unit_storage_throughput,
        subnet_ids=home.subnets[spec.zone or ""],
        security_group_ids=[group.id],
        kms_key_id=key,
        automatic_backup_retention_days=_BACKUP_DAYS if spec.keeps_backups else keeps_none,
        tags={**home.tags, "Name": f"inferplan-{name}"},
        opts=retained,
    )
    associations = [
        fsx.DataRepositoryAssociation(
            # A dash can be part of both names, so it does not separate them.
            f"{name}-{content_key(name, each.path)}",
            file_system_id=system.id,
            file_system_path=each.path,
            data_repository_path=each.address,
            batch_import_meta_data_on_create=True,
            delete_data_in_filesystem=each.delete_files,
            s3=_imports(each) if each.auto_import else None,
            tags=dict(home.tags),
            opts=retained,
        )
        for each in spec.data_repositories
    ]
    # File servers connect to nodes too, which are all in the cluster's security group.
    nodes = [
        ec2.SecurityGroupRule(
            f"{name}-nodes-{start}",
            description=f"Lustre from the file servers of store {name}",
            type="ingress",
            protocol="tcp",
            from_port=start,
            to_port=end,
            security_group_id=home.security_group,
            source_security_group_id=group.id,
            opts=pulumi.ResourceOptions(parent=parent),
        )
        for start, end in _PORTS
    ]
    return system, [*associations, *nodes]


def _imports(repository: DataRepository) -> fsx.DataRepositoryAssociationS3ArgsDict:
    return {"auto_import_policy": {"events": list(repository.auto_import)}}


def _security_group(
    name: str,
    home: EksClusterHandle,
    clients: Sequence[pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> ec2.SecurityGroup:
    rules: list[ec2.SecurityGroupIngressArgsDict] = [
        {
            "description": "Lustre between file servers and nodes",
            "protocol": "tcp",
            "from_port": start,
            "to_port": end,
            "self": True,
            "security_groups": list(clients),
        }
        for start, end in _PORTS
    ]
    return ec2.SecurityGroup(
        f"{name}-lustre",
        description=f"Lustre of store {name}, between its file servers and the nodes of its pools",
        vpc_id=home.vpc,
        ingress=rules,
        egress=cast("list[ec2.SecurityGroupEgressArgsDict]", rules),
        tags={**home.tags, "Name": f"inferplan-{name}"},
        opts=opts,
    )
