"""The outgoing traffic of a model's pods: servers that they may call by network, and a proxy. By
default: DNS and their model store.
"""

from collections.abc import Iterator
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from inferplan.components.hosts import ANYWHERE, peers_are_known
from inferplan.components.spec import FieldError, Spec, rule
from inferplan.components.storage.fields import network, parsed_url

# The names that programs read: curl and Python only the lower-case ones for HTTP, Go and Java tools
# often the upper-case ones.
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_NEVER_PROXIED = ("localhost", "127.0.0.1", ".svc", ".cluster.local")


def _network(text: str) -> str:
    return text if text == ANYWHERE else network(text)


def _proxy_url(url: str) -> str:
    parts = parsed_url(url, "proxy URL", "http://host:port", query=False)
    if parts.port is None or parts.path.strip("/"):
        raise ValueError(f"{url!r} is not a proxy URL. Expected http://host:port, without a path.")
    return url.rstrip("/")


Networks = Annotated[
    tuple[
        Annotated[
            str,
            AfterValidator(_network),
            Field(description="A network in CIDR notation, for example 10.20.0.0/24."),
        ],
        ...,
    ],
    Field(max_length=50),
]
Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?$")]


def _require_networks(field: str, host: str, networks: tuple[str, ...]) -> None:
    if not peers_are_known(host, networks):
        raise FieldError(
            f"A NetworkPolicy cannot match the host name {host!r}. Add cidrs: [<networks of its"
            f" servers>]; write {host}.svc if it is a Service of the cluster; or use egress.proxy"
            " if its addresses change",
            field,
        )


class EgressPeer(Spec):
    """Servers that the model's pods may call."""

    host: Host | None = None
    """The host that the model calls: a Service (qdrant.vectors.svc), an IP address, or a domain
    name, which also needs cidrs.
    """
    cidrs: Networks = ()
    """The networks of the servers. 0.0.0.0/0 is every address, which the policy pack blocks without
    an exemption.
    """
    ports: Annotated[
        list[Annotated[int, Field(ge=1, le=65_535)]], Field(min_length=1, max_length=16)
    ]
    """TCP ports of the servers; of a Service, the ports of its pods."""

    @rule
    def _servers_are_known(self) -> Iterator[str]:
        if self.host is not None:
            _require_networks("host", self.host, self.cidrs)
        elif not self.cidrs:
            yield (
                "Neither host nor cidrs is set. Add host: <Service or IP address>, or cidrs:"
                " [<networks>]"
            )


class EgressProxy(Spec):
    """An HTTP proxy. The pods get HTTP_PROXY, HTTPS_PROXY and NO_PROXY, also in lower case."""

    url: Annotated[str, AfterValidator(_proxy_url)]
    """The URL of the proxy: http://host:port."""
    cidrs: Networks = ()
    """The networks of the proxy. Required unless its host is an IP address or a Service."""
    no_proxy: Annotated[list[Host], Field(max_length=50)] = []
    """Further hosts that are called directly. Services of the cluster and the hosts under `to`
    always are.
    """

    @model_validator(mode="after")
    def _servers_are_known(self) -> Self:
        _require_networks("url", self.host, self.cidrs)
        return self

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


class EgressSpec(Spec):
    """Outgoing traffic of the model's pods, in addition to DNS and the model's store. Default:
    none.
    """

    to: Annotated[list[EgressPeer], Field(max_length=32)] = []
    """Servers that the pods may call."""
    proxy: EgressProxy | None = None
    not_called: Annotated[list[str], Field(max_length=50)] = []
    """Variables and arguments whose values look like addresses but are never called, for example
    PUBLIC_URL.
    """

    def edges(self) -> Iterator[tuple[str, tuple[str, ...], list[int]]]:
        """Yield host, networks and ports of every server that the pods may call, the proxy last."""
        yield from ((each.host or "", each.cidrs, each.ports) for each in self.to)
        if self.proxy is not None:
            yield self.proxy.host, self.proxy.cidrs, [urlsplit(self.proxy.url).port or 0]

    def environment(self) -> dict[str, str]:
        if self.proxy is None:
            return {}
        direct = ",".join(
            dict.fromkeys(
                [
                    *_NEVER_PROXIED,
                    *(each.host for each in self.to if each.host),
                    *self.proxy.no_proxy,
                ]
            )
        )
        return {
            **dict.fromkeys(PROXY_VARIABLES, self.proxy.url),
            "NO_PROXY": direct,
            "no_proxy": direct,
        }
