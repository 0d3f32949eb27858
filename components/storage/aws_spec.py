"""What a user writes about storage that AWS provides: a bucket to create, and an EFS file system.

Both outlive the stack unless that is switched off in so many words.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from components.cluster import aws_api
from components.spec import Spec
from components.storage.bucket_name import BucketName


def _throughput_mode(mode: str) -> str:
    known = aws_api.one_of(mode, aws_api.aws_api().throughput_modes, "throughput mode")
    if known == "provisioned":
        raise ValueError(
            "'provisioned' throughput is paid for around the clock; use elastic, which models read at full speed when they start"
        )
    return known


KmsKeyArn = Annotated[str, StringConstraints(pattern=r"^arn:aws:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$")]


class AccessLogs(Spec):
    """Where S3 writes down who asked for which object; the bucket exists, in the same region and account, and lets logging.s3.amazonaws.com write."""

    bucket: BucketName
    """The bucket that the logs go to."""
    prefix: Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9._-]+/)*$", max_length=200)] | None = None
    """What the logs' names start with, a slash at its end; by default the name of the bucket that is logged."""


class BucketCreation(Spec):
    """The bucket is created: versioned, encrypted with a key of its own, closed to the public and to requests in clear."""

    retain: bool = True
    """Protects the bucket and its key, and keeps both when the stack is destroyed."""
    old_versions_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """How long versions that were overwritten or deleted are kept."""
    abort_uploads_days: Annotated[int, Field(ge=1, le=365)] = 7
    """When the parts of an upload that never finished are removed."""
    access_logs: AccessLogs | None = None
    """Keeps a log of every request; absent, only CloudTrail can tell who read what, if the account records data events."""


class EfsStoreSpec(Spec):
    """An EFS file system: created with mount targets in the cluster's zones, or one that exists."""

    kind: Literal["efs"]
    file_system_id: Annotated[str, StringConstraints(pattern=r"^fs-([0-9a-f]{8}|[0-9a-f]{17})$")] | None = None
    """A file system that exists and is mountable from the cluster's subnets; absent, one is created."""
    access_point_id: Annotated[str, StringConstraints(pattern=r"^fsap-([0-9a-f]{8}|[0-9a-f]{17})$")] | None = None
    """The access point to mount it by; goes with fileSystemId."""
    path: Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._-]+){1,4}$", max_length=100)] = "/models"
    """The directory that the created access point shows as its root."""
    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] = 65532
    """The user and group that the created access point acts as, whoever writes."""
    throughput_mode: Annotated[str, AfterValidator(_throughput_mode)] = "elastic"
    """elastic grows with what is read; bursting is cheaper and slow once its credits are spent."""
    backup: bool = True
    """Daily backups by AWS Backup; models can be copied again, so a small stack may do without."""
    open_to: Literal["pools", "cluster"] = "pools"
    """Whose machines may mount the created file system: the stack's own pools, or every machine in the cluster's security group.
    An adopted cluster's own nodes may run preheating and the models of existing pools, so those need `cluster`."""
    kms_key_arn: KmsKeyArn | None = None
    """The key it is encrypted with; by default the account's own key for EFS."""
    retain: bool = True
    """Protects the file system, and keeps it when the stack is destroyed."""

    @property
    def location(self) -> str:
        """Where it is, as people write it."""
        return f"{self.file_system_id or 'a file system of this stack'}:{self.path}"

    @model_validator(mode="after")
    def _an_adopted_one_is_named_whole(self) -> Self:
        if (self.file_system_id is None) != (self.access_point_id is None):
            raise ValueError("fileSystemId and accessPointId go together: write both to adopt a file system, or neither to create one")
        ours = {"path", "run_as_user", "throughput_mode", "backup", "open_to", "kms_key_arn", "retain"} & self.model_fields_set
        if self.file_system_id is not None and ours:
            named = ", ".join(sorted(type(self).model_fields[each].alias or each for each in ours))
            raise ValueError(f"{named} would change {self.file_system_id}, which is only adopted; remove it")
        return self
