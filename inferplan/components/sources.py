"""Places of model files, as pods see them: the contract of a store's handle, and the kinds of stores.

A source answers for its volume, its servers, its credentials, the variables of its readers and the
program that copies from it. Nothing else asks which kind it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    import pulumi

    from inferplan.components.handles import CaBundle, NodeTarget

SOURCE_MOUNT = "/source"
"""The directory of a preheat's pod where it sees a mounted source."""
_HTTPS = 443


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A place with model files. The defaults are those of a public server without credentials."""

    reader: ClassVar[str]
    """The reader in the preheat's program (`sources.py` there) that lists and copies the files."""
    needs_hub_client: ClassVar[bool] = False
    """True if a preheat needs the image with the hub's own client."""
    secret_variables: ClassVar[Mapping[str, str]] = {}
    """The variables of a preheat by name, with their keys in the Secret `credentials`."""

    credentials: str | None = None
    """The existing Secret with the credentials of readers."""
    ca: CaBundle | None = None
    """The private CA of the servers; None for a public CA or a volume."""
    networks: tuple[str, ...] = ()
    """The networks of the servers; empty if their host name tells them."""
    identity: WorkloadIdentity | None = field(default=None, repr=False)
    """The cloud role of one reader."""

    @property
    def claim(self) -> VolumeClaim | None:
        """The claim that pods mount; None if they call servers instead."""
        return None

    @property
    def url(self) -> SplitResult | None:
        """The address of the servers; None if pods call none, as for a mounted volume."""
        return None

    @property
    def ports(self) -> list[int]:
        """The TCP ports that readers call."""
        url = self.url
        if url is None:
            return []
        return [url.port or (80 if url.scheme == "http" else _HTTPS)]

    @property
    def is_cloud_service(self) -> bool:
        """True if the servers are the cloud's own, which have no fixed addresses."""
        return False

    @property
    def uses_cloud_identity(self) -> bool:
        """True if readers get their credentials from the cloud: from the agent of their node, or
        by a call of its token service.
        """
        return False

    @property
    def gates(self) -> tuple[pulumi.Resource, ...]:
        """The resources that must exist before readers start."""
        return ()

    @property
    def variables(self) -> Mapping[str, str | None]:
        """The variables of a preheat's tools, without secrets; None leaves one out."""
        return {}

    @property
    def stream_variables(self) -> Mapping[str, str]:
        """The variables of an engine that loads the files itself, without secrets."""
        return {}

    @property
    def request(self) -> Mapping[str, str]:
        """The fields that the preheat's request has for this kind alone."""
        return {}

    def root(self, path: str) -> str:
        """Return the directory `path` as the preheat's reader names it."""
        raise NotImplementedError

    def mount(self, path: str, revision: str | None) -> ModelMount | None:
        """Return the files below `path` as servers mount them; None if they call servers."""
        del revision
        claim = self.claim
        return None if claim is None else ModelMount(claim=claim, sub_path=path, gate=claim.ready)

    def origin_of(self, path: str) -> str:
        """Return what identifies the files below `path`; other files have another origin."""
        return self.root(path)

    def stream_address(self, path: str) -> str | None:
        """Return the address from which engines load `path` themselves; None if they cannot."""
        del path
        return None


@dataclass(frozen=True, kw_only=True)
class WorkloadIdentity:
    """The AWS role of one service account. `ready` must exist before its pods start, because pods
    get credentials at admission.
    """

    service_account: str
    annotations: Mapping[str, pulumi.Input[str]]
    ready: pulumi.Resource = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class VolumeClaim(ModelSource):
    """A PersistentVolumeClaim that several pods mount: `origin` identifies the storage, `nodes` the
    pool whose nodes each have a copy. With `is_image`, the image called `name` is mounted instead.
    """

    reader: ClassVar[str] = "local"

    name: str
    origin: str | None = None
    nodes: NodeTarget | None = None
    ready: pulumi.Resource | None = field(default=None, repr=False)
    is_image: bool = False

    @property
    def claim(self) -> VolumeClaim:
        return self

    @property
    def gates(self) -> tuple[pulumi.Resource, ...]:
        return () if self.ready is None else (self.ready,)

    @property
    def request(self) -> Mapping[str, str]:
        return {"mount": SOURCE_MOUNT}

    def root(self, path: str) -> str:
        return f"{SOURCE_MOUNT}/{path}"

    def origin_of(self, path: str) -> str:
        return f"{self.origin or self.name}/{path}"


@dataclass(frozen=True, kw_only=True)
class ObjectStore(ModelSource):
    """An S3 bucket prefix, with the Secret of its `credentials`, its private CA, its reader's AWS
    role and the networks of its servers.
    """

    reader: ClassVar[str] = "remote"
    secret_variables: ClassVar[Mapping[str, str]] = {
        "AWS_ACCESS_KEY_ID": "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY": "AWS_SECRET_ACCESS_KEY",
    }

    bucket: str
    prefix: str
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False

    @property
    def url(self) -> SplitResult:
        return urlsplit(self.endpoint or "https://s3.amazonaws.com")

    @property
    def is_cloud_service(self) -> bool:
        return self.endpoint is None

    @property
    def uses_cloud_identity(self) -> bool:
        return self.credentials is None

    @property
    def gates(self) -> tuple[pulumi.Resource, ...]:
        return () if self.identity is None else (self.identity.ready,)

    @property
    def variables(self) -> Mapping[str, str | None]:
        return {
            "RCLONE_CONFIG_SOURCE_TYPE": "s3",
            "RCLONE_CONFIG_SOURCE_PROVIDER": "AWS" if self.endpoint is None else "Other",
            "RCLONE_CONFIG_SOURCE_ENV_AUTH": "true",
            "RCLONE_CONFIG_SOURCE_FORCE_PATH_STYLE": "true" if self.path_style else "false",
            "RCLONE_CONFIG_SOURCE_ENDPOINT": self.endpoint,
            "RCLONE_CONFIG_SOURCE_REGION": self.region,
            "AWS_REGION": self.region,
        }

    @property
    def stream_variables(self) -> Mapping[str, str]:
        values = {"AWS_DEFAULT_REGION": self.region} if self.region else {}
        if self.endpoint:
            # Run:ai's streamer (docs/src/env-vars.md of run-ai/runai-model-streamer, 2026-11).
            style = "0" if self.path_style else "1"
            streamer = {"RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": style}
            return {"AWS_ENDPOINT_URL": self.endpoint, **streamer, **values}
        return values

    def root(self, path: str) -> str:
        return "source:" + "/".join(
            part for part in (self.bucket, self.prefix.strip("/"), path) if part
        )

    def origin_of(self, path: str) -> str:
        return f"s3:{self.endpoint or ''}/{self.root(path)}"

    def stream_address(self, path: str) -> str:
        return "s3://" + "/".join(
            part.strip("/") for part in (self.bucket, self.prefix, path) if part
        )


@dataclass(frozen=True, kw_only=True)
class WebStore(ModelSource):
    """Files below an HTTP(S) address. `credentials` names a Secret with AUTHORIZATION, the value of
    that header.
    """

    reader: ClassVar[str] = "http"
    secret_variables: ClassVar[Mapping[str, str]] = {"HTTP_AUTHORIZATION": "AUTHORIZATION"}

    address: str

    @property
    def url(self) -> SplitResult:
        return urlsplit(self.address)

    def root(self, path: str) -> str:
        return f"{self.address}/{path}"


@dataclass(frozen=True, kw_only=True)
class HubStore(ModelSource):
    """Repositories of a Hugging Face hub. `credentials` names a Secret with HF_TOKEN."""

    reader: ClassVar[str] = "hub"
    needs_hub_client: ClassVar[bool] = True
    secret_variables: ClassVar[Mapping[str, str]] = {"HF_TOKEN": "HF_TOKEN"}

    endpoint: str

    @property
    def url(self) -> SplitResult:
        return urlsplit(self.endpoint)

    @property
    def ports(self) -> list[int]:
        # A hub may redirect large files to servers on port 443.
        return sorted({*super().ports, _HTTPS})

    @property
    def variables(self) -> Mapping[str, str | None]:
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": "/tmp/huggingface",  # noqa: S108 - a volume of the pod
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }

    @property
    def request(self) -> Mapping[str, str]:
        return {"endpoint": self.endpoint}

    def root(self, path: str) -> str:
        return path

    def origin_of(self, path: str) -> str:
        return f"{self.endpoint}/{path}"


@dataclass(frozen=True, kw_only=True)
class ModelMount:
    """Model files in the directory `sub_path` of a claim; servers wait for `gate`, check READY if
    `marked`, and may write to `folder`.
    """

    claim: VolumeClaim
    sub_path: str
    gate: pulumi.Resource | None = field(default=None, repr=False)
    marked: bool = False
    folder: str | None = None
