"""Where model files may come from that is no disk and no bucket: an HTTP(S) server, and a hub of Hugging Face.

Both are only read. An address that carries a password or a query is refused: credentials live in Secrets.
"""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator

from components.spec import DnsName, Spec
from components.storage.ca_spec import CaBundleSpec, refuse_in_clear
from components.storage.store_networks import StoreNetworks


def _base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise ValueError(f"{url!r} is no address; write http(s)://host or http(s)://host:port/path with a port from 1 to 65535") from None
    if parts.username is not None or parts.password is not None:
        # The value itself stays out of the message: it holds a password.
        raise ValueError("an address carries no user name or password; put them into a Secret and name it under credentials")
    if parts.query or parts.fragment:
        raise ValueError("an address carries no query and no fragment, where tokens tend to hide; put a token into a Secret")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise ValueError(f"{url!r} is no address; write http(s)://host or http(s)://host:port/path")
    if any(part in (".", "..") for part in parts.path.split("/")) or "//" in parts.path:
        raise ValueError(f"{url!r} is not plain; write its path without '.', '..' or double slashes")
    return url.rstrip("/")


Url = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x20\\\x7f]+$", max_length=1024),
    AfterValidator(_base_url),
    Field(description="http(s)://host, with a port and a path if need be; no password and no query."),
]


class HttpCredentials(Spec):
    """A Secret of the inference namespace that holds AUTHORIZATION, the whole value of that header (`Bearer ...`, `Basic ...`)."""

    secret_name: DnsName
    """The Secret's name. It must exist; its value never passes through a stack file."""


class HubCredentials(Spec):
    """A Secret of the inference namespace that holds HF_TOKEN, a token that may read."""

    secret_name: DnsName
    """The Secret's name. It must exist; its value never passes through a stack file."""


class HttpStoreSpec(Spec):
    """Files behind an HTTP(S) server, read by preheats only."""

    kind: Literal["http"]
    url: Url
    """What comes before each model's path."""
    credentials: HttpCredentials | None = None
    """Absent: the server asks for nothing."""
    ca_bundle: CaBundleSpec | None = None
    """The CA that signed the server's certificate, where that is no public one; believed beside the public ones."""
    networks: StoreNetworks = ()
    """The networks of the store's servers. Its readers can then reach these networks only. Default: derived from the host."""

    @field_validator("ca_bundle")
    @classmethod
    def _certificates_need_tls(cls, bundle: CaBundleSpec | None, info: ValidationInfo) -> CaBundleSpec | None:
        return refuse_in_clear(bundle, "url", info.data.get("url"))

    @property
    def location(self) -> str:
        """Where it is, as people write it."""
        return self.url


class HubStoreSpec(Spec):
    """Repositories of a hub of Hugging Face, each at a pinned commit, read by preheats only."""

    kind: Literal["huggingface"]
    endpoint: Url = "https://huggingface.co"
    """The hub's address, which is HF_ENDPOINT in the Job; a mirror's, if need be."""
    credentials: HubCredentials | None = None
    """Absent: only public repositories."""
    ca_bundle: CaBundleSpec | None = None
    """The CA that signed the hub's certificate, where that is no public one; believed beside the public ones."""
    networks: StoreNetworks = ()
    """The networks of the store's servers. Its readers can then reach these networks only. Default: derived from the host."""

    @field_validator("ca_bundle")
    @classmethod
    def _certificates_need_tls(cls, bundle: CaBundleSpec | None, info: ValidationInfo) -> CaBundleSpec | None:
        return refuse_in_clear(bundle, "endpoint", info.data.get("endpoint"))

    @property
    def location(self) -> str:
        """Where it is, as people write it."""
        return self.endpoint
