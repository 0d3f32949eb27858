"""The base class of model stores, and the field types that several kinds share: bucket names,
networks, private CAs, paths.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator

from inferplan.components.handles import CaBundle, ClusterTraits
from inferplan.components.sources import ModelSource
from inferplan.components.spec import DnsName, Spec, checked, cidr, rule
from inferplan.documents.errors import SpecError
from inferplan.kube.facts import StoreFacts

# "General purpose bucket naming rules", S3 user guide, read 2026-11.
_BUCKET = re.compile(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
_RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_SUFFIXES = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
# The instance metadata services of AWS: egress that includes them gives a pod the identity of its
# node.
_METADATA = (ip_address("169.254.169.254"), ip_address("fd00:ec2::254"))


@dataclass(frozen=True, kw_only=True)
class StaticVolume:
    """Existing storage as a PersistentVolume: the component that declares it, what identifies the
    files, the prefix and the key of the names in Kubernetes, and the location, access modes and
    capacity of the volume.
    """

    component: str
    origin: str
    prefix: str
    key: str
    spec: Mapping[str, Any]


class Store(Spec, ABC):
    """The base class of model stores, and the questions that other code asks them."""

    kind: str
    is_volume: ClassVar[bool] = False
    """True if pods mount the store instead of calling its servers."""
    creates_claim: ClassVar[bool] = False
    """True if the stack creates the claim that pods mount."""
    streamable: ClassVar[bool] = False
    """True if engines that have a loader for buckets read the store without a preheat."""
    takes_file_names: ClassVar[bool] = False
    """True if `files` of the weights may list the files, because the store cannot list them itself.
    """

    copyable: ClassVar[bool] = True
    """True if a preheat can read the store."""
    pinned: ClassVar[bool] = False
    """True if a revision is required and always names the same files."""
    pulled: ClassVar[bool] = False
    """True if each node pulls the files to its own disk before a server starts there."""

    stated: ClassVar[Mapping[str, Any]] = {"kind": True}

    @property
    @abstractmethod
    def location(self) -> str:
        """The location, for messages and tables."""

    @property
    def facts(self) -> StoreFacts:
        return self.facts_as(StoreFacts, type=self.kind, location=self.location)

    @property
    def node_pool(self) -> str | None:
        """The pool whose nodes have a copy each; None if all readers see the same files."""
        return None

    @property
    def is_shared(self) -> bool:
        """True if pods on all nodes mount the same files."""
        return self.is_volume and self.node_pool is None

    @property
    def takes_preheats(self) -> bool:
        """True if a preheat can write to the store."""
        return self.is_volume

    @property
    def existing_claim(self) -> str | None:
        """The claim of the user that the stack mounts but does not create."""
        return None

    @property
    def stated_capacity(self) -> str | None:
        """The capacity that models have to fit, of each node if nodes have their own copies; None
        if it is unknown or unlimited.
        """
        return None

    @property
    def volume_key(self) -> tuple[str, ...]:
        """The settings that name the volume; only one store may have them. Empty if the stack makes
        no volume of them.
        """
        return ()

    @property
    def credentials_secret(self) -> str | None:
        """The existing Secret with the credentials of readers."""
        return None

    @property
    def directory(self) -> str | None:
        """The directory with the files on the machine that has them: a node, or an NFS server."""
        return None

    @property
    def called_url(self) -> str | None:
        """The URL that servers without a preheat call; None if they mount the store."""
        return None

    def is_closed(self, path: str) -> bool:
        """True if `path` needs an account, but the store has no credentials."""
        del path
        return False

    @property
    def reader_variables(self) -> tuple[str, ...]:
        """The environment variables that the store sets in servers that read it."""
        return ()

    def source(self) -> ModelSource:
        """Return the store as pods see it, by its settings alone. Raises TypeError if only the
        platform of its cloud can make it.
        """
        raise TypeError(f"a store of kind {self.kind} needs its cloud's platform")

    def volume(self) -> StaticVolume | None:
        """Return the volume that the stack makes of existing storage on the network; None if it
        makes none.
        """
        return None

    def path_errors(self, path: str, revision: str | None) -> Iterator[SpecError]:
        """Check the path and the revision of weights in this store; the errors' paths start below
        the weights.
        """
        del path, revision
        yield from ()

    def cluster_error(self, cluster: ClusterTraits) -> SpecError | None:
        """Return why the store cannot belong to `cluster`, with a path below the store; None if it
        can.
        """
        del cluster
        return None


def bucket_name(bucket: str) -> Iterator[str]:
    """Return `bucket`. Raises ValueError with the rule that it breaks."""
    rules = (
        "3 to 63 lower-case letters, digits, dots and hyphens, with a letter or digit first and"
        " last"
    )
    if not _BUCKET.match(bucket):
        yield f"{bucket!r} is not a valid bucket name. Use {rules}."
    if ".." in bucket:
        yield f"{bucket!r} is not a valid bucket name: it contains two dots in a row. Use one."
    if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", bucket):
        yield (
            f"{bucket!r} is not a valid bucket name: it looks like an IP address. Use a name;"
            " addresses belong in endpoint."
        )
    if bucket.startswith(_RESERVED_PREFIXES) or bucket.endswith(_RESERVED_SUFFIXES):
        reserved = ", ".join((*_RESERVED_PREFIXES, *_RESERVED_SUFFIXES))
        yield (
            f"{bucket!r} is not a valid bucket name: AWS reserves {reserved}. Use the name of a"
            " general purpose bucket."
        )


BucketName = Annotated[str, checked(bucket_name)]


def network(text: str) -> str:
    block = cidr(text, "10.20.0.0/24")
    if any(address in block for address in _METADATA):
        raise ValueError(
            f"{text!r} contains an instance metadata address. Use smaller networks that hold the"
            " servers only"
        )
    return str(block)


StoreNetworks = Annotated[
    tuple[
        Annotated[
            str,
            AfterValidator(network),
            Field(description="A network in CIDR notation, for example 10.20.0.0/24."),
        ],
        ...,
    ],
    Field(max_length=50),
]


class CaBundleSpec(Spec):
    """CA certificates in PEM, in one key of a Secret or a ConfigMap of the stack's namespace."""

    secret_name: DnsName | None = None
    """The name of an existing Secret. Set this or configMapName."""
    config_map_name: DnsName | None = None
    """The name of an existing ConfigMap, for example of trust-manager or OpenShift. Set this or
    secretName.
    """
    key: Annotated[
        str, StringConstraints(pattern=r"^[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", max_length=253)
    ] = "ca.crt"
    """The key with the certificates. The default is the name that cert-manager and Kubernetes use.
    """

    @rule
    def _from_one_object(self) -> Iterator[str]:
        if (self.secret_name is None) == (self.config_map_name is None):
            both = "secretName and configMapName are both set"
            problem = both if self.secret_name else "Neither secretName nor configMapName is set"
            yield f"{problem}. Set one of them."

    @property
    def location(self) -> str:
        return f"{self.bundle.kind} {self.bundle.name}, key {self.key}"

    @property
    def bundle(self) -> CaBundle:
        if self.secret_name is not None:
            return CaBundle(kind="Secret", name=self.secret_name, key=self.key)
        return CaBundle(kind="ConfigMap", name=self.config_map_name or "", key=self.key)


class RemoteStoreSpec(Store):
    """A store on servers that its readers call, over TLS if it has a private CA."""

    address_field: ClassVar[str]
    """The field with the URL of the servers."""
    stated: ClassVar[Mapping[str, Any]] = {
        **Store.stated,
        **dict.fromkeys(("url", "endpoint", "credentials", "ca_bundle"), True),
    }

    if TYPE_CHECKING:
        credentials: Any
        ca_bundle: CaBundleSpec | None
        networks: tuple[str, ...]

    @property
    def facts(self) -> StoreFacts:
        authority = None if self.ca_bundle is None else self.ca_bundle.location
        return self.facts_as(
            StoreFacts,
            type=self.kind,
            location=self.location,
            secret_name=self.credentials_secret,
            authority=authority,
        )

    @property
    def credentials_secret(self) -> str | None:
        return None if self.credentials is None else self.credentials.secret_name

    @property
    def access(self) -> dict[str, Any]:
        """The fields of a source that every store on servers has."""
        return {
            "credentials": self.credentials_secret,
            "ca": None if self.ca_bundle is None else self.ca_bundle.bundle,
            "networks": self.networks,
        }

    @field_validator("ca_bundle", check_fields=False)
    @classmethod
    def _require_tls(cls, bundle: CaBundleSpec | None, info: ValidationInfo) -> CaBundleSpec | None:
        address = info.data.get(cls.address_field)
        if bundle is not None and address is not None and address.startswith("http://"):
            field = cls.address_field
            raise ValueError(
                f"{field} is {address}, without TLS. Use https:// in {field}, or remove caBundle."
            )
        return bundle


def parsed_url(url: str, noun: str, expected: str, *, query: bool = True) -> SplitResult:
    """Return the parts of an http(s) URL, in messages called `noun`. Raises ValueError if it is
    none, has a password, or has a query without `query`.
    """
    problem = f"{url!r} is not {'an' if noun == 'endpoint' else 'a'} {noun}. Expected {expected}"
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise ValueError(f"{problem} with a port from 1 to 65535.") from None
    if parts.username is not None or parts.password is not None:
        # The value itself stays out of the message: it holds a password.
        raise ValueError(
            f"The {noun} contains a user name or password. Put them into a Secret and set"
            " credentials.secretName."
        )
    if not query and (parts.query or parts.fragment):
        raise ValueError(
            f"The {noun} contains a query or a fragment, which often contain tokens. Remove it, and"
            " put tokens into a Secret."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise ValueError(f"{problem}.")
    return parts
