"""The settings of an FSx for Lustre file system: one that the stack creates on EKS, or an existing
one on any cluster with the FSx CSI driver.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.handles import ClusterTraits
from inferplan.components.naming import content_key
from inferplan.components.nodes.pool import Zone
from inferplan.components.platforms.aws.store_spec import KmsKeyArn
from inferplan.components.spec import Bytes, FieldError, Spec, rule
from inferplan.components.storage.fields import BucketName, StaticVolume
from inferplan.components.storage.volume_spec import VolumeStore
from inferplan.documents.errors import SpecError
from inferplan.kube.facts import StoreFacts
from inferplan.kube.quantity import bytes_of

# The FSx API reference, CreateFileSystem and CreateDataRepositoryAssociation (botocore 1.44.5).
_STEP = 2400
_THROUGHPUTS = "125, 250, 500 or 1000"
_EXISTING = ("file_system_id", "dns_name", "mount_name")


def _directory(path: str) -> str:
    if any(part in (".", "..") for part in path.split("/")):
        raise ValueError(f"{path!r} contains '.' or '..'. Write the path without them: /llm.")
    return path


class DataRepository(Spec):
    """A directory of the file system that shows the objects of an S3 bucket in the same region. FSx
    copies a file from S3 when a pod first reads it, and never writes to the bucket.
    """

    path: Annotated[
        str,
        StringConstraints(pattern=r"^/([A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+$"),
        AfterValidator(_directory),
    ]
    """The directory in the file system, for example /llm. Directories cannot contain each other."""
    bucket: BucketName
    """An existing bucket."""
    prefix: Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9._-]+/)*$", max_length=900)] = ""
    """Prefix of the objects, ending with a slash. Default: the whole bucket."""
    auto_import: Annotated[
        tuple[Literal["NEW", "CHANGED", "DELETED"], ...], Field(max_length=3)
    ] = ("NEW",)
    """Events of the bucket that FSx imports. CHANGED and DELETED change files that servers may be
    reading. With an empty list, only the objects that exist at creation are imported.
    """
    delete_files: bool = False
    """Deletes the files of the directory when the association is deleted, which needs retain: false.
    The bucket keeps its objects.
    """

    @property
    def address(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


class FsxStoreSpec(VolumeStore):
    """An FSx for Lustre file system, in one zone. Pods mount it by the FSx CSI driver."""

    kind: Literal["fsx"]
    capacity: Bytes | None = None
    """Capacity: 1200Gi, 2400Gi, or a multiple of 2400Gi. Required for a new file system."""
    deployment_type: Literal["SCRATCH_2", "PERSISTENT_2"] = "PERSISTENT_2"
    """PERSISTENT_2 replicates files in its zone; SCRATCH_2 is cheaper, and loses files when a file
    server fails.
    """
    per_unit_storage_throughput: Literal[125, 250, 500, 1000] | None = None
    """Throughput in MB/s for each TiB. Required for a new file system of type PERSISTENT_2."""
    zone: Zone | None = None
    """The zone of the new file system, in the cluster. Traffic to nodes in other zones is charged.
    """
    open_to: Literal["pools", "cluster"] = "pools"
    """Nodes that may mount the new file system: those of the stack's pools, or all nodes in the
    cluster's security group.
    """
    kms_key_arn: KmsKeyArn | None = None
    """The KMS key of the new file system. Default: the account's key for FSx."""
    backup: bool = True
    """Keeps daily backups for 7 days. PERSISTENT_2 without data repositories only."""
    data_repositories: Annotated[tuple[DataRepository, ...], Field(max_length=8)] = ()
    """Directories that show the objects of S3 buckets."""
    retain: bool = True
    """Protects the new file system from deletion, and keeps it when the stack is destroyed."""
    file_system_id: Annotated[str, StringConstraints(pattern=r"^fs-[0-9a-f]{8,17}$")] | None = None
    """An existing file system, with dnsName and mountName. Default: create one."""
    dns_name: (
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=253)] | None
    ) = None
    """The DNS name or IP address of the existing file system."""
    mount_name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{1,8}$")] | None = None
    """The mount name of the existing file system (aws fsx describe-file-systems)."""
    mount_options: tuple[
        Annotated[str, StringConstraints(pattern=r"^[a-z_]+(=[A-Za-z0-9._:-]+)?$")], ...
    ] = ("flock", "relatime")
    """Mount options. They replace the recommended ones. A preheat needs flock."""

    creates_claim: ClassVar[bool] = True
    stated: ClassVar[Mapping[str, Any]] = {
        **VolumeStore.stated,
        **dict.fromkeys((*_EXISTING, "retain"), True),
    }

    @property
    def is_existing(self) -> bool:
        return self.file_system_id is not None

    @property
    def location(self) -> str:
        return self.file_system_id or f"a Lustre file system of this stack in {self.zone}"

    @property
    def facts(self) -> StoreFacts:
        protected = None if self.is_existing else self.retain
        return self.facts_as(
            StoreFacts, type=self.kind, location=self.location, protected=protected
        )

    @property
    def volume_key(self) -> tuple[str, ...]:
        return () if self.file_system_id is None else (self.file_system_id,)

    @property
    def keeps_backups(self) -> bool:
        """True if FSx can and should keep backups of the new file system."""
        persistent = self.deployment_type == "PERSISTENT_2"
        return self.backup and persistent and not self.data_repositories

    def volume(self) -> StaticVolume | None:
        if self.file_system_id is None:
            return None
        names = (self.file_system_id, self.dns_name, self.mount_name)
        return StaticVolume(
            component="FsxVolume",
            origin=f"fsx://{self.file_system_id}",
            prefix="fsx",
            key=content_key(*(str(each) for each in names), *self.mount_options),
            spec=self.volume_of(*names),
        )

    def volume_of(self, id_: Any, dns_name: Any, mount_name: Any) -> Mapping[str, Any]:
        """Return the volume's specification for the file system with these values."""
        return {
            # The root of a new file system belongs to root. Kubernetes gives it to the group of
            # the preheat only if the volume has a file system type and also this second mode
            # (`supportsFSGroup` in Kubernetes' csi_mounter.go; the driver's fsGroupPolicy).
            "access_modes": ["ReadWriteMany", "ReadWriteOnce"],
            "capacity": {"storage": self.capacity or "1200Gi"},
            "mount_options": list(self.mount_options),
            "csi": {
                "driver": "fsx.csi.aws.com",
                "fs_type": "lustre",
                "volume_handle": id_,
                "volume_attributes": {"dnsname": dns_name, "mountname": mount_name},
            },
        }

    def cluster_error(self, cluster: ClusterTraits) -> SpecError | None:
        if self.is_existing or cluster.cloud == "AWS":
            return None
        return SpecError(
            ("kind",),
            f"A new file system of kind fsx requires a cluster of provider eks, not"
            f" {cluster.provider}. Set fileSystemId, dnsName and mountName of an existing one.",
        )

    @rule
    def _check_existing_file_system(self) -> Iterator[FieldError]:
        names = {name: field.alias or name for name, field in type(self).model_fields.items()}
        missing = [names[each] for each in _EXISTING if getattr(self, each) is None]
        if 0 < len(missing) < len(_EXISTING):
            yield FieldError(
                f"{', '.join(missing)} is missing: an existing file system needs fileSystemId,"
                " dnsName and mountName (aws fsx describe-file-systems). Set all three, or none to"
                " create one."
            )
        elif not missing:
            own = {*_EXISTING, "kind", "capacity", "mount_options"}
            for each in sorted(self.model_fields_set - own):
                yield FieldError(
                    f"{names[each]} cannot be set for the existing file system"
                    f" {self.file_system_id}. Remove {names[each]}.",
                    names[each],
                )

    @rule
    def _check_new_file_system(self) -> Iterator[FieldError]:
        if self.is_existing:
            return
        for each in ("capacity", "zone"):
            if getattr(self, each) is None:
                example = {"capacity": "1200Gi", "zone": "us-east-1a"}[each]
                yield FieldError(
                    f"A new file system needs {each}. Add {each}: {example}, or name an existing"
                    " file system with fileSystemId, dnsName and mountName."
                )
        size, rest = divmod(int(bytes_of(self.capacity or "0")), 2**30)
        if rest or (size != _STEP // 2 and size % _STEP) or not size:
            lower = max(size // _STEP * _STEP, _STEP // 2)
            yield FieldError(
                f"{self.capacity!r} is not a size of FSx for Lustre. Use 1200Gi, 2400Gi or a"
                f" multiple of 2400Gi, for example {lower}Gi or {size // _STEP * _STEP + _STEP}Gi.",
                "capacity",
            )
        throughput = self.per_unit_storage_throughput
        if self.deployment_type == "PERSISTENT_2" and throughput is None:
            yield FieldError(
                "PERSISTENT_2 needs perUnitStorageThroughput. Use"
                f" {_THROUGHPUTS} (MB/s for each TiB)."
            )
        if self.deployment_type == "SCRATCH_2":
            for name, value in (
                ("perUnitStorageThroughput", throughput),
                ("kmsKeyArn", self.kms_key_arn),
            ):
                if value is not None:
                    yield FieldError(
                        f"SCRATCH_2 has no {name}. Remove {name}, or use PERSISTENT_2.", name
                    )

    @rule
    def _check_data_repositories(self) -> Iterator[FieldError]:
        for index, each in enumerate(self.data_repositories):
            if each.delete_files and self.retain:
                yield FieldError(
                    "deleteFiles needs retain: false: by default the data repository is kept with"
                    " the file system. Remove deleteFiles, or set retain: false.",
                    "dataRepositories",
                    index,
                    "deleteFiles",
                )
        for (_, one), (second, other) in combinations(enumerate(self.data_repositories), 2):
            for field, here, there in (
                ("path", f"{other.path}/", f"{one.path}/"),
                ("bucket", other.address, one.address),
            ):
                if here.startswith(there) or there.startswith(here):
                    yield FieldError(
                        f"{here.rstrip('/')!r} overlaps with {there.rstrip('/')!r} of another data"
                        " repository. Use directories and prefixes that do not contain each other.",
                        "dataRepositories",
                        second,
                        field,
                    )
