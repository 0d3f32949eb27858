"""The settings of model stores, and of the weights that a model reads from one."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.handles import ClusterTraits
from inferplan.components.platforms.aws.lustre_spec import FsxStoreSpec
from inferplan.components.platforms.aws.store_spec import BucketCreation, EfsStoreSpec, KmsKeyArn
from inferplan.components.sources import ObjectStore
from inferplan.components.spec import Bytes, DnsName, Spec, checked, rule
from inferplan.components.storage.fields import (
    BucketName,
    CaBundleSpec,
    RemoteStoreSpec,
    StoreNetworks,
    parsed_url,
)
from inferplan.components.storage.image_spec import ImageStoreSpec
from inferplan.components.storage.volume_spec import ClaimStoreSpec, NfsStoreSpec, NodeDiskStoreSpec
from inferplan.components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from inferplan.documents.errors import SpecError
from inferplan.kube.facts import StoreFacts

_MOVING_REVISIONS = ("main", "master", "head", "latest", "stable", "dev", "nightly")


def relative_path(path: str) -> str:
    """Return `path` without a slash at its end. Raises ValueError if it is not a path inside a
    store.
    """
    parts = path.rstrip("/").split("/") if path.rstrip("/") else []
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise ValueError(
            f"{path!r} is not a path inside the store. Use names joined by single slashes, without"
            " '.' or '..'."
        )
    return "/".join(parts)


def _endpoint_url(url: str) -> str:
    parts = parsed_url(url, "endpoint", "http(s)://host or http(s)://host:port")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(
            f"{url!r} is not an endpoint: it has a path or a query. Use http(s)://host:port, and"
            " put the path into bucket and prefix."
        )
    return url.rstrip("/")


def _fixed_revision(revision: str) -> Iterator[str]:
    if revision.lower() in _MOVING_REVISIONS:
        yield (
            f"Revision {revision!r} can change while a server runs. Use a commit (40 hex digits) or"
            " a fixed version (v1.2.0)."
        )


RelativePath = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\\]*$", max_length=512),
    AfterValidator(relative_path),
    Field(description="A path inside a store: names joined by single slashes."),
]
Revision = Annotated[
    str,
    StringConstraints(pattern=r"^(sha256:[0-9a-f]{64}|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$"),
    AfterValidator(lambda revision: revision.removeprefix("sha256:")),
    checked(_fixed_revision),
    Field(
        description=(
            "A commit (40 hex digits) or a fixed version; of an image its digest, sha256:<64 hex"
            " digits>. Branch names such as main are rejected."
        )
    ),
]


class S3Credentials(Spec):
    """A Secret in the stack's namespace with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""

    secret_name: DnsName
    """The name of an existing Secret. Its values are never part of a stack file."""


class S3StoreSpec(RemoteStoreSpec):
    """An S3 bucket, at AWS or at another endpoint, for example MinIO."""

    kind: Literal["s3"]
    bucket: BucketName
    """The name of the bucket, by the naming rules of AWS."""
    prefix: RelativePath = ""
    """Prefix of the models' paths. Default: none, the whole bucket."""
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{2,32}$")] | None = None
    """The region of the bucket, for example eu-central-1."""
    endpoint: Annotated[str, AfterValidator(_endpoint_url)] | None = None
    """The URL of an S3 API other than AWS: http(s)://host:port."""
    path_style: bool | None = None
    """Use URLs of the form endpoint/bucket/key instead of bucket.endpoint/key. Default: true if
    endpoint is set.
    """
    credentials: S3Credentials | None = None
    """Credentials of the store. Default: the pod's identity (Pod Identity, IRSA), which the stack
    creates on EKS.
    """
    ca_bundle: CaBundleSpec | None = None
    """The CA of the endpoint's certificate, if it is not a public CA."""
    create: BucketCreation | None = None
    """Creates the bucket; {} uses the safest defaults. Default: use an existing bucket."""
    kms_key_arn: KmsKeyArn | None = None
    """The KMS key of an existing encrypted bucket. Readers get permission to decrypt with it."""
    networks: StoreNetworks = ()
    """The networks of the store's servers. Its readers can then reach these networks only. Default:
    derived from the host.
    """

    address_field: ClassVar[str] = "endpoint"
    streamable: ClassVar[bool] = True
    stated: ClassVar[Mapping[str, Any]] = {
        **RemoteStoreSpec.stated,
        "bucket": True,
        "prefix": True,
        "create": {"retain", "old_versions_days"},
    }

    @property
    def facts(self) -> StoreFacts:
        made = self.create
        return (
            super().facts
            if made is None
            else replace(
                super().facts, protected=made.retain, old_versions_days=made.old_versions_days
            )
        )

    def source(self) -> ObjectStore:
        style = self.endpoint is not None if self.path_style is None else self.path_style
        return ObjectStore(
            bucket=self.bucket,
            prefix=self.prefix,
            region=self.region,
            endpoint=self.endpoint,
            path_style=style,
            **self.access,
        )

    @property
    def location(self) -> str:
        at = f" at {self.endpoint}" if self.endpoint else ""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/") + at

    @property
    def called_url(self) -> str:
        return self.endpoint or "https://s3.amazonaws.com"

    @property
    def reader_variables(self) -> tuple[str, ...]:
        return () if self.ca_bundle is None else ("AWS_CA_BUNDLE",)

    def cluster_error(self, cluster: ClusterTraits) -> SpecError | None:
        if self.create is None or cluster.creates_buckets:
            return None
        return SpecError(
            ("create",),
            f"Cannot create a bucket next to a cluster of provider {cluster.provider}, which has no"
            " AWS region. Use provider eks, or remove create.",
        )

    @rule
    def _only_aws_creates_buckets(self) -> Iterator[str]:
        if self.create is not None:
            others = {
                "endpoint": self.endpoint,
                "credentials": self.credentials,
                "kmsKeyArn": self.kms_key_arn,
            }
            conflicting = [key for key, value in others.items() if value is not None]
            if conflicting:
                yield (
                    f"{', '.join(conflicting)} requires an existing bucket, but create makes a new"
                    " one at AWS. Remove one of them."
                )
            if (
                self.create.access_logs is not None
                and self.create.access_logs.bucket == self.bucket
            ):
                yield (
                    f"{self.bucket} cannot be its own log bucket: writing a log would be logged"
                    " again. Use another bucket in accessLogs."
                )


StoreSpec = Annotated[
    S3StoreSpec
    | NfsStoreSpec
    | EfsStoreSpec
    | FsxStoreSpec
    | ClaimStoreSpec
    | NodeDiskStoreSpec
    | HttpStoreSpec
    | HubStoreSpec
    | ImageStoreSpec,
    Field(discriminator="kind"),
]
Sha256 = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{64}$"),
    Field(description="A sha256 in 64 lower-case hex digits."),
]


class WeightsSpec(Spec):
    """The weights of a model: a path in a store, pinned to a revision."""

    store: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """The name of a store in storage."""
    path: Annotated[RelativePath, StringConstraints(min_length=1)]
    """The directory of the model, below the prefix or root of the store."""
    revision: Revision | None = None
    """The version of the files. Each revision is copied to its own directory. Without a revision,
    raise preheat.round to copy again.
    """
    files: dict[Annotated[RelativePath, StringConstraints(min_length=1)], Sha256 | None] = {}
    """The files in a store of kind http, each with its sha256 or null. Default: the files in
    SHA256SUMS, or those on the index pages.
    """
    size: Bytes | None = None
    """Total size of the files, used to check deadlines, accelerator memory and capacity."""
