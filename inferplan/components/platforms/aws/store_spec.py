"""The settings of AWS storage, kept at a destroy unless retain is false: a bucket to create, and an
EFS file system.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.handles import ClusterTraits
from inferplan.components.platforms.aws import aws_api
from inferplan.components.spec import Spec, rule
from inferplan.components.storage.fields import BucketName, Store
from inferplan.documents.errors import SpecError
from inferplan.kube.facts import StoreFacts


def _throughput_mode(mode: str) -> str:
    supported = aws_api.one_of(mode, aws_api.aws_api().throughput_modes, "throughput mode")
    if supported == "provisioned":
        raise ValueError(
            "throughputMode 'provisioned' is billed around the clock. Use elastic, which has full"
            " throughput whenever a model starts."
        )
    return supported


KmsKeyArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$")
]


class AccessLogs(Spec):
    """The target of S3 access logs: an existing bucket in the same region and account that lets
    logging.s3.amazonaws.com write.
    """

    bucket: BucketName
    """The bucket for the logs."""
    prefix: (
        Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9._-]+/)*$", max_length=200)] | None
    ) = None
    """Prefix of the logs' names, ending with a slash. Default: the name of the logged bucket."""


class BucketCreation(Spec):
    """Settings of a created bucket. It is versioned, encrypted with its own key, and denies public
    access and requests without TLS.
    """

    retain: bool = True
    """Protects the bucket and its key from deletion, and keeps both when the stack is destroyed.
    With false, a destroy deletes the bucket with every object and version in it, and schedules the
    key for deletion.
    """
    old_versions_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """Days to keep versions of objects that were overwritten or deleted."""
    abort_uploads_days: Annotated[int, Field(ge=1, le=365)] = 7
    """Days after which the parts of an unfinished upload are removed."""
    access_logs: AccessLogs | None = None
    """Logs every request. Default: no logs; CloudTrail shows reads only if the account records data
    events.
    """


class EfsStoreSpec(Store):
    """An EFS file system: created with mount targets in the cluster's zones, or an existing one."""

    kind: Literal["efs"]
    file_system_id: (
        Annotated[str, StringConstraints(pattern=r"^fs-([0-9a-f]{8}|[0-9a-f]{17})$")] | None
    ) = None
    """An existing file system that can be mounted from the cluster's subnets. Default: create one.
    """
    access_point_id: (
        Annotated[str, StringConstraints(pattern=r"^fsap-([0-9a-f]{8}|[0-9a-f]{17})$")] | None
    ) = None
    """The access point of the existing file system. Required with fileSystemId."""
    path: Annotated[
        str, StringConstraints(pattern=r"^(/[A-Za-z0-9._-]+){1,4}$", max_length=100)
    ] = "/models"
    """The root directory of the created access point."""
    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] = 65532
    """The user and group of all access through the created access point."""
    throughput_mode: Annotated[str, AfterValidator(_throughput_mode)] = "elastic"
    """Throughput mode: elastic scales with the load; bursting is cheaper, but slow once its credits
    are used.
    """
    backup: bool = True
    """Daily backups by AWS Backup. Models can be copied again, so a small stack can disable them.
    """
    open_to: Literal["pools", "cluster"] = "pools"
    """Nodes that may mount the created file system: those of the stack's pools, or all nodes in the
    cluster's security group. Use `cluster` if preheats or models run on nodes of an existing
    cluster.
    """
    kms_key_arn: KmsKeyArn | None = None
    """The KMS key of the created file system. Default: the account's key for EFS."""
    retain: bool = True
    """Protects the file system from deletion, and keeps it when the stack is destroyed."""

    is_volume: ClassVar[bool] = True
    creates_claim: ClassVar[bool] = True
    stated: ClassVar[Mapping[str, Any]] = {
        **Store.stated,
        **dict.fromkeys(("file_system_id", "access_point_id", "path", "retain"), True),
    }

    @property
    def facts(self) -> StoreFacts:
        if self.file_system_id is not None:
            return self.facts_as(
                StoreFacts, type=self.kind, location=f"{self.file_system_id} {self.access_point_id}"
            )
        return self.facts_as(
            StoreFacts, type=self.kind, location=self.location, protected=self.retain
        )

    def cluster_error(self, cluster: ClusterTraits) -> SpecError | None:
        if cluster.cloud == "AWS":
            return None
        return SpecError(
            ("kind",),
            f"Stores of kind efs require a cluster of provider eks, not {cluster.provider}. Use"
            " kind: nfs with server and path.",
        )

    @property
    def location(self) -> str:
        return f"{self.file_system_id or 'a file system of this stack'}:{self.path}"

    @rule
    def _check_existing_file_system(self) -> Iterator[str]:
        if (self.file_system_id is None) != (self.access_point_id is None):
            yield (
                "fileSystemId and accessPointId require each other. Set both to use an existing"
                " file system, or neither to create one."
            )
        unsupported = {
            "path",
            "run_as_user",
            "throughput_mode",
            "backup",
            "open_to",
            "kms_key_arn",
            "retain",
        } & self.model_fields_set
        if self.file_system_id is not None and unsupported:
            names = ", ".join(
                sorted(type(self).model_fields[each].alias or each for each in unsupported)
            )
            yield (
                f"{names} cannot be set for the existing file system {self.file_system_id}. Remove"
                f" {names}."
            )
