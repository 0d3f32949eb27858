"""The settings of model stores on the web, which are only read: an HTTP(S) server, and a Hugging
Face hub.
"""

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.sources import HubStore, WebStore
from inferplan.components.spec import DnsName, Spec
from inferplan.components.storage.fields import (
    CaBundleSpec,
    RemoteStoreSpec,
    StoreNetworks,
    parsed_url,
)
from inferplan.documents.errors import SpecError

# Repositories whose terms an account accepts before it reads their files (pages of the models,
# 2026-11).
_GATED = re.compile(
    r"meta-llama/.*|google/(code|med|pali|shield|t5)?gemma.*|CohereLabs/.*|bigcode/starcoder.*"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


def _base_url(url: str) -> str:
    parts = parsed_url(url, "URL", "http(s)://host or http(s)://host:port/path", query=False)
    if any(part in (".", "..") for part in parts.path.split("/")) or "//" in parts.path:
        raise ValueError(
            f"{url!r} is not a normalized URL. Remove '.', '..' and double slashes from its path."
        )
    return url.rstrip("/")


Url = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x20\\\x7f]+$", max_length=1024),
    AfterValidator(_base_url),
    Field(
        description=(
            "A URL: http(s)://host with an optional port and path, without password and query."
        )
    ),
]


class HttpCredentials(Spec):
    """A Secret in the stack's namespace with AUTHORIZATION, the complete value of that header
    (`Bearer ...`, `Basic ...`).
    """

    secret_name: DnsName
    """The name of an existing Secret. Its value is never part of a stack file."""


class HubCredentials(Spec):
    """A Secret in the stack's namespace with HF_TOKEN, a token with read access."""

    secret_name: DnsName
    """The name of an existing Secret. Its value is never part of a stack file."""


class HttpStoreSpec(RemoteStoreSpec):
    """Files on an HTTP(S) server, read only by preheats."""

    kind: Literal["http"]
    url: Url
    """The base URL of the models' paths."""
    credentials: HttpCredentials | None = None
    """Credentials of the server. Default: none."""
    ca_bundle: CaBundleSpec | None = None
    """The private CA of the server's certificate, trusted in addition to public CAs."""
    networks: StoreNetworks = ()
    """The networks of the store's servers. Its readers can then reach these networks only. Default:
    derived from the host.
    """

    address_field: ClassVar[str] = "url"
    takes_file_names: ClassVar[bool] = True

    def source(self) -> WebStore:
        return WebStore(address=self.url, **self.access)

    @property
    def location(self) -> str:
        return self.url


class HubStoreSpec(RemoteStoreSpec):
    """Repositories of a Hugging Face hub, each at a pinned commit, read only by preheats."""

    kind: Literal["huggingface"]
    endpoint: Url = "https://huggingface.co"
    """The URL of the hub or of a mirror (HF_ENDPOINT in the Job)."""
    credentials: HubCredentials | None = None
    """Credentials of the hub. Default: none, for public repositories."""
    ca_bundle: CaBundleSpec | None = None
    """The private CA of the hub's certificate, trusted in addition to public CAs."""
    networks: StoreNetworks = ()
    """The networks of the store's servers. Its readers can then reach these networks only. Default:
    derived from the host.
    """

    address_field: ClassVar[str] = "endpoint"
    pinned: ClassVar[bool] = True

    def source(self) -> HubStore:
        return HubStore(endpoint=self.endpoint, **self.access)

    def is_closed(self, path: str) -> bool:
        is_public_hub = self.endpoint == type(self).model_fields["endpoint"].default
        return is_public_hub and self.credentials is None and _GATED.fullmatch(path) is not None

    @property
    def location(self) -> str:
        return self.endpoint

    def path_errors(self, path: str, revision: str | None) -> Iterator[SpecError]:
        """The path must be a repository, the revision a commit."""
        if not _REPOSITORY.fullmatch(path):
            yield SpecError(
                ("path",),
                f"{path!r} is not a repository. Expected owner/name, for example Qwen/Qwen3-8B.",
            )
        elif revision is None or not _COMMIT.fullmatch(revision):
            problem = (
                "The revision is missing"
                if revision is None
                else f"{revision!r} is not a commit, so its files can change"
            )
            command = (
                f"git ls-remote {self.endpoint}/{path} {'HEAD' if revision is None else revision}"
            )
            yield SpecError(
                ("revision",),
                f"{problem}. Expected a commit (40 hex digits). Find it with: {command}",
            )
