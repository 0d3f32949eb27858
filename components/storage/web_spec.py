"""The settings of model stores on the web: an HTTP(S) server, and a Hugging Face hub.

Both are only read. Validation rejects URLs with a password or a query: credentials belong in Secrets.
"""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator

from components.spec import DnsName, Spec
from components.storage.fields import CaBundleSpec, Store, StoreNetworks, require_tls


def _base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise ValueError(
            f"{url!r} is not a URL. Expected http(s)://host or http(s)://host:port/path with a port from 1 to 65535."
        ) from None
    if parts.username is not None or parts.password is not None:
        # The value itself stays out of the message: it holds a password.
        raise ValueError("The URL contains a user name or password. Put them into a Secret and set credentials.secretName.")
    if parts.query or parts.fragment:
        raise ValueError("The URL contains a query or a fragment, which often contain tokens. Remove it, and put tokens into a Secret.")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise ValueError(f"{url!r} is not a URL. Expected http(s)://host or http(s)://host:port/path.")
    if any(part in (".", "..") for part in parts.path.split("/")) or "//" in parts.path:
        raise ValueError(f"{url!r} is not a normalized URL. Remove '.', '..' and double slashes from its path.")
    return url.rstrip("/")


Url = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x20\\\x7f]+$", max_length=1024),
    AfterValidator(_base_url),
    Field(description="A URL: http(s)://host with an optional port and path, without password and query."),
]


class HttpCredentials(Spec):
    """A Secret in the stack's namespace with AUTHORIZATION, the complete value of that header (`Bearer ...`, `Basic ...`)."""

    secret_name: DnsName
    """The name of an existing Secret. Its value is never part of a stack file."""


class HubCredentials(Spec):
    """A Secret in the stack's namespace with HF_TOKEN, a token with read access."""

    secret_name: DnsName
    """The name of an existing Secret. Its value is never part of a stack file."""


class HttpStoreSpec(Store):
    """Files on an HTTP(S) server, read only by preheats."""

    kind: Literal["http"]
    url: Url
    """The base URL of the models' paths."""
    credentials: HttpCredentials | None = None
    """Credentials of the server. Default: none."""
    ca_bundle: CaBundleSpec | None = None
    """The private CA of the server's certificate, trusted in addition to public CAs."""
    networks: StoreNetworks = ()
    """The networks of the store's servers. Its readers can then reach these networks only. Default: derived from the host."""

    @field_validator("ca_bundle")
    @classmethod
    def _certificates_need_tls(cls, bundle: CaBundleSpec | None, info: ValidationInfo) -> CaBundleSpec | None:
        return require_tls(bundle, "url", info.data.get("url"))

    @property
    def location(self) -> str:
        """The location, for messages and tables."""
        return self.url


class HubStoreSpec(Store):
    """Repositories of a Hugging Face hub, each at a pinned commit, read only by preheats."""

    kind: Literal["huggingface"]
    endpoint: Url = "https://huggingface.co"
    """The URL of the hub or of a mirror (HF_ENDPOINT in the Job)."""
    credentials: HubCredentials | None = None
    """Credentials of the hub. Default: none, for public repositories."""
    ca_bundle: CaBundleSpec | None = None
    """The private CA of the hub's certificate, trusted in addition to public CAs."""
    networks: StoreNetworks = ()
    """The networks of the store's servers. Its readers can then reach these networks only. Default: derived from the host."""

    @field_validator("ca_bundle")
    @classmethod
    def _certificates_need_tls(cls, bundle: CaBundleSpec | None, info: ValidationInfo) -> CaBundleSpec | None:
        return require_tls(bundle, "endpoint", info.data.get("endpoint"))

    @property
    def location(self) -> str:
        """The location, for messages and tables."""
        return self.endpoint
