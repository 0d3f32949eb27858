"""Where model files live: buckets, shares, disks and servers, and which of their files a model is made of.

It describes stores that exist already and refuses what AWS or the mount would refuse later: a bucket name that
cannot be, an endpoint that carries a password, a path that climbs out of its share.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from components.spec import Bytes, DnsName, Spec
from components.storage.aws_spec import BucketCreation, EfsStoreSpec, KmsKeyArn
from components.storage.bucket_name import BucketName
from components.storage.ca_spec import CaBundleSpec, refuse_in_clear
from components.storage.disk_spec import ClaimStoreSpec, NodeDiskStoreSpec
from components.storage.store_networks import StoreNetworks
from components.storage.web_spec import HttpStoreSpec, HubStoreSpec

# EFS user guide, "Mounting without the EFS mount helper", read 2026-11. `hard` keeps a reader waiting instead of handing it an
# I/O error in the middle of a model; `noresvport` lets the client reconnect after the server moved.
RECOMMENDED_MOUNT_OPTIONS = ("nfsvers=4.1", "rsize=1048576", "wsize=1048576", "hard", "timeo=600", "retrans=2", "noresvport")

_MOVING_REVISIONS = ("main", "master", "head", "latest", "stable", "dev", "nightly")


def _relative_path(path: str) -> str:
    parts = path.rstrip("/").split("/") if path.rstrip("/") else []
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} is not a path inside the store; write names joined by single slashes, no '.' or '..'")
    return "/".join(parts)


def _absolute_path(path: str) -> str:
    if path != "/" and any(part in ("", ".", "..") for part in path.rstrip("/").split("/")[1:]):
        raise ValueError(f"{path!r} is not the path of an export; write it from the root, without '.', '..' or double slashes")
    return path.rstrip("/") or "/"


def _endpoint_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise ValueError(f"{url!r} is not an endpoint; write http(s)://host or http(s)://host:port with a port from 1 to 65535") from None
    if parts.username is not None or parts.password is not None:
        # The value itself stays out of the message: it holds a password.
        raise ValueError("an endpoint carries no user name or password; put them into a Secret and name it under credentials")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise ValueError(f"{url!r} is not an endpoint; write http(s)://host or http(s)://host:port")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is more than an endpoint; write http(s)://host:port, and what follows under bucket and prefix")
    return url.rstrip("/")


def _nfs_server(server: str) -> str:
    try:
        return str(ipaddress.ip_address(server))
    except ValueError:
        pass
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", server) or re.fullmatch(r"[0-9.]+", server):
        raise ValueError(f"{server!r} is not a server; write a DNS name in lower case or an IP address")
    return server


def _fixed_revision(revision: str) -> str:
    if revision.lower() in _MOVING_REVISIONS:
        raise ValueError(
            f"{revision!r} moves, so files might change under a server; write a commit (40 hex digits) or a fixed version (v1.2.0)"
        )
    return revision


RelativePath = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\\]*$", max_length=512),
    AfterValidator(_relative_path),
    Field(description="A path inside a store: names joined by single slashes."),
]
Revision = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
    AfterValidator(_fixed_revision),
    Field(description="A commit (40 hex digits) or a fixed version; a moving name such as main is refused."),
]


class S3Credentials(Spec):
    """A Secret of the inference namespace that holds AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""

    secret_name: DnsName
    """The Secret's name. It must exist; its values never pass through a stack file."""


class S3StoreSpec(Spec):
    """An S3 bucket that exists, at AWS or behind an endpoint such as MinIO."""

    kind: Literal["s3"]
    bucket: BucketName
    """The bucket's name, by the naming rules of AWS."""
    prefix: RelativePath = ""
    """What comes before each model's path; empty for the whole bucket."""
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{2,32}$")] | None = None
    """The bucket's region, as AWS spells it (eu-central-1)."""
    endpoint: Annotated[str, AfterValidator(_endpoint_url)] | None = None
    """Where the S3 API answers when that is not AWS: http(s)://host:port."""
    path_style: bool | None = None
    """Ask for endpoint/bucket/key instead of bucket.endpoint/key. Absent: path style where an endpoint is named."""
    credentials: S3Credentials | None = None
    """Absent: the identity the pod has anyway (Pod Identity, IRSA), which on a cluster of EKS this stack provides."""
    ca_bundle: CaBundleSpec | None = None
    """The CA that signed the endpoint's certificate, where that is no public one."""
    create: BucketCreation | None = None
    """Creates the bucket, with {} as careful as it gets; absent, it exists already."""
    kms_key_arn: KmsKeyArn | None = None
    """The KMS key of a bucket that exists and is encrypted with one; its readers may then decrypt."""
    networks: StoreNetworks = ()
    """The networks of the store's servers. Its readers can then reach these networks only. Default: derived from the host."""

    @property
    def location(self) -> str:
        """Where it is, as people write it."""
        at = f" at {self.endpoint}" if self.endpoint else ""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/") + at

    @field_validator("ca_bundle")
    @classmethod
    def _certificates_need_tls(cls, bundle: CaBundleSpec | None, info: ValidationInfo) -> CaBundleSpec | None:
        return refuse_in_clear(bundle, "endpoint", info.data.get("endpoint"))

    @model_validator(mode="after")
    def _only_aws_creates_buckets(self) -> Self:
        if self.create is not None:
            others = {"endpoint": self.endpoint, "credentials": self.credentials, "kmsKeyArn": self.kms_key_arn}
            given = [key for key, value in others.items() if value is not None]
            if given:
                raise ValueError(f"{', '.join(given)} belongs to a bucket that exists, and create makes one at AWS; remove one of them")
            if self.create.access_logs is not None and self.create.access_logs.bucket == self.bucket:
                raise ValueError(f"{self.bucket} would log the writing of its own logs, without end; name another bucket under accessLogs")
        return self


class NfsStoreSpec(Spec):
    """A directory that an NFS server exports to every node."""

    kind: Literal["nfs"]
    server: Annotated[str, StringConstraints(max_length=253), AfterValidator(_nfs_server)]
    """The server's DNS name or address."""
    path: Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x20\\]*$", max_length=1024), AfterValidator(_absolute_path)]
    """The exported directory. Preheating needs it writable for the user that preheat names (runAsUser)."""
    capacity: Bytes
    """How much fits. Kubernetes only compares it when binding; plans check models against it."""
    mount_options: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z_]+(=[A-Za-z0-9._:-]+)?$")], ...] = RECOMMENDED_MOUNT_OPTIONS
    """Options of the NFS mount, replacing the recommended ones as a whole."""
    retain: Literal[True] = True
    """What is on the share outlives the stack; nothing here deletes a share."""

    @property
    def location(self) -> str:
        """Where it is, as people write it."""
        return f"{self.server}:{self.path}"


StoreSpec = Annotated[
    S3StoreSpec | NfsStoreSpec | EfsStoreSpec | ClaimStoreSpec | NodeDiskStoreSpec | HttpStoreSpec | HubStoreSpec,
    Field(discriminator="kind"),
]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), Field(description="A sha256 in 64 lower-case hex digits.")]


class WeightsSpec(Spec):
    """Which files a model is: a path in a store, pinned to a revision."""

    store: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """The name of a store under storage."""
    path: Annotated[RelativePath, StringConstraints(min_length=1)]
    """The directory that holds the model, below the store's prefix or share."""
    revision: Revision | None = None
    """Names the content: new files are a new revision, in a directory of their own. Absent: raise preheat.round to read again."""
    files: dict[Annotated[RelativePath, StringConstraints(min_length=1)], Sha256 | None] = {}
    """The files of a store of kind http, each with its sha256 or null. Absent: its SHA256SUMS names them, else its index pages."""
    size: Bytes | None = None
    """How much the files weigh together; times, device memory and share capacity are checked against it."""
