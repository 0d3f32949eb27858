"""Checks the stores of a stack on AWS against its cluster: regions, and who can mount a file system."""

from collections.abc import Iterator

from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.lustre_spec import FsxStoreSpec
from inferplan.components.platforms.aws.store_spec import EfsStoreSpec
from inferplan.components.platforms.platform import Sections
from inferplan.components.stores import S3StoreSpec
from inferplan.documents.errors import KeyPath, SpecError


def store_errors(sections: Sections, cluster: EksClusterFields) -> Iterator[SpecError]:
    for name, store in sections.storage.items():
        if isinstance(store, FsxStoreSpec) and not store.is_existing:
            yield from _lustre_errors(name, store, sections, cluster)
        if (
            isinstance(store, EfsStoreSpec | FsxStoreSpec)
            and store.file_system_id is None
            and store.open_to != "cluster"
        ):
            yield from _unreachable_file_system(name, sections, cluster)
        if isinstance(store, EfsStoreSpec) and store.file_system_id is None and not cluster.zones:
            yield SpecError(
                ("storage", name),
                "A new file system needs a mount target in each zone, but the zones of an existing"
                " cluster are unknown. Add cluster.subnets: {<zone>: subnet-...}, or use an existing"
                " one with fileSystemId and accessPointId.",
            )
        if (
            isinstance(store, S3StoreSpec)
            and store.create is not None
            and store.region not in (None, cluster.region)
        ):
            problem = (
                f"A new bucket is created in the cluster's region, {cluster.region}, not in"
                f" {store.region}."
            )
            yield SpecError(("storage", name, "region"), f"{problem} Remove region.")


def region_errors(sections: Sections, cluster: EksClusterFields) -> Iterator[SpecError]:
    """Check the regions of KMS keys and certificates, which only resources of the same region can
    use.
    """
    arns: list[tuple[KeyPath, str | None, str, str]] = []
    for name, store in sections.storage.items():
        path = ("storage", name, "kmsKeyArn")
        if isinstance(store, S3StoreSpec):
            arns.append(
                (
                    path,
                    store.kms_key_arn,
                    store.region or cluster.region,
                    f"the bucket {store.bucket}",
                )
            )
        elif isinstance(store, EfsStoreSpec | FsxStoreSpec):
            arns.append((path, store.kms_key_arn, cluster.region, "the file system"))
    balancer = None if sections.gateway is None else sections.gateway.access.balancer
    if balancer is not None:
        arns.append(
            (
                ("gateway", balancer.field, "certificateArn"),
                balancer.certificate_arn,
                cluster.region,
                "the load balancer",
            )
        )
    for path, arn, here, user in arns:
        if arn is not None and (there := arn.split(":")[3]) != here:
            yield SpecError(
                path, f"{arn!r} is in {there}, but {user} is in {here}. Use one of {here}."
            )


def _lustre_errors(
    name: str, store: FsxStoreSpec, sections: Sections, cluster: EksClusterFields
) -> Iterator[SpecError]:
    zones = ", ".join(sorted(cluster.zones))
    if store.zone not in cluster.zones:
        remedy = f"Use one of {zones}" if zones else "Add cluster.subnets: {<zone>: subnet-...}"
        yield SpecError(
            ("storage", name, "zone"),
            f"The cluster has no subnet in {store.zone}, where the file system is created."
            f" {remedy}, or use an existing file system with fileSystemId, dnsName and mountName.",
        )
    created = {
        each.bucket
        for each in sections.storage.values()
        if isinstance(each, S3StoreSpec) and each.create is not None
    }
    for index, repository in enumerate(store.data_repositories):
        if repository.bucket in created:
            yield SpecError(
                ("storage", name, "dataRepositories", index, "bucket"),
                f"FSx can only link a bucket that exists, but this stack creates"
                f" {repository.bucket!r}. Create the bucket with another stack, or copy its models"
                f" with preheat: {{into: {name}}}.",
            )


def _unreachable_file_system(
    name: str, sections: Sections, cluster: EksClusterFields
) -> Iterator[SpecError]:
    """Check that nodes without the stack's security groups do not mount its file systems: such a
    mount hangs for minutes.
    """
    for key, model in sections.models.items():
        pool = sections.node_pools.get(model.pool)
        filled = model.preheat is not None and model.preheat.into == name
        mounts = filled or (
            model.preheat is None
            and model.stored_files is not None
            and model.stored_files.store == name
        )
        if mounts and pool is not None and not pool.creates_nodes:
            cause = (
                f"model {key!r} mounts it on pool {model.pool!r}, whose nodes this stack did not"
                " create"
            )
        elif filled and cluster.create is None:
            cause = (
                f"model {key!r} is preheated into it on any untainted node of the existing cluster"
            )
        else:
            continue
        problem = f"Only nodes of this stack's pools can mount {name!r}, but {cause}."
        yield SpecError(("storage", name, "openTo"), f"{problem} Set openTo: cluster.")
        return
