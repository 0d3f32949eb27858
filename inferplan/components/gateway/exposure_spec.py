"""The exposures of a gateway, which are flat fields in YAML, with their capabilities, and the notes
about routes on a Gateway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import StringConstraints

from inferplan.components.balancers import BalancerSpec, IngressBalancer, ServiceBalancer
from inferplan.components.hosts import networks_of
from inferplan.components.spec import DnsLabel, DnsName, Spec, checked

GATEWAY = "gateway"
"""The name of the gateway, and of its Service."""
GRPC_PORT = 8082
"""The port of the gateway's Service for gRPC."""


def _reject_address(host: str) -> Iterator[str]:
    if networks_of(host):
        yield (
            f"{host!r} is an IP address, but an Ingress and a certificate need a DNS name. Use a"
            " name that resolves to it."
        )


# The class of ingress-nginx, whose defaults end calls after 60 s and deny bodies above 1 MB
# (kubernetes/ingress-nginx docs/user-guide/nginx-configuration/annotations.md, read 2026-11).
_INGRESS_NGINX = "nginx"
_NGINX_PROXY = "nginx.ingress.kubernetes.io/proxy-"

PublicHost = Annotated[DnsName, checked(_reject_address)]


class TlsSpec(Spec):
    """The certificate that the Ingress uses."""

    secret_name: DnsName
    """A Secret of type kubernetes.io/tls in the stack's namespace. With clusterIssuer, cert-manager
    creates it.
    """
    cluster_issuer: DnsName | None = None
    """A cert-manager ClusterIssuer that issues the certificate. Default: you create the Secret."""


class GatewayParent(Spec):
    """An existing Gateway of the Gateway API. It has its own TLS settings and addresses."""

    name: DnsName
    """The name of the Gateway."""
    namespace: DnsLabel
    """The namespace of the Gateway."""
    section_name: DnsName | None = None
    """The listener to attach to. Default: all listeners."""


class ExposureFields(Spec):
    """The settings of every exposure, flat fields of the gateway."""

    if TYPE_CHECKING:
        drain_seconds: int
        read_timeout_seconds: int

    host: PublicHost | None = None
    """DNS name that clients call. Required unless exposure is internal."""
    exposure: Literal["ingress", "gatewayApi", "loadBalancer", "internal"] = "ingress"
    """The exposure: an Ingress, an HTTPRoute on an existing Gateway, a network load balancer, or
    only inside the cluster.
    """
    path_prefix: (
        Annotated[
            str,
            StringConstraints(pattern=r"^(/[A-Za-z0-9_][A-Za-z0-9_.~-]*){1,4}$", max_length=200),
        ]
        | None
    ) = None
    """A path in front of the models' names that clients already use, for example /llm/v2. The
    Ingress or route takes only calls below it. gRPC has no path. Default: none.
    """
    tls: TlsSpec | None = None
    alb: IngressBalancer | None = None
    """An Application Load Balancer for exposure ingress. Its certificate replaces tls."""
    nlb: ServiceBalancer | None = None
    """A Network Load Balancer for exposure loadBalancer."""
    insecure: bool = False
    """Serves plain HTTP at the Ingress, so keys cross the network in plain text. For trials only.
    """
    ingress_class_name: DnsName | None = None
    """The ingress class. Default: the default class of the cluster."""
    parent: GatewayParent | None = None
    """The Gateway to attach to. Required for exposure gatewayApi."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """An exposure: the host of a public gateway, and the capabilities of what is in front of its
    pods.
    """

    host: str | None = None
    """The DNS name that clients call; None if only pods of the cluster reach the gateway, by its
    Service.
    """
    scheme: str = "https"
    """The URL scheme that servers see as the clients'."""
    balancer: BalancerSpec | None = None
    """The load balancer of a cloud in front of the pods."""
    controller: str | None = None
    """The object or controller that must exist in the cluster so that clients reach the gateway."""
    ingress_class: str | None = None
    """The class of the Ingress; None if there is none or the cluster's default is meant."""
    has_proxy: bool = False
    """True if a proxy in front keeps idle connections to the gateway."""
    path_prefix: str = ""
    """The path in front of the models' names in every URL, except for gRPC."""
    keepalive_seconds: int = 0
    """Interval of TCP keepalive probes that connections of clients need, 0 for none."""

    @property
    def entry_point(self) -> str:
        """The object or controller that clients reach."""
        return self.controller or f"Service {GATEWAY}"

    @property
    def certificate(self) -> str | None:
        """The certificate that clients see; None if this stack does not choose one."""
        return None if self.balancer is None else self.balancer.certificate

    @property
    def is_public(self) -> bool:
        return self.host is not None

    @property
    def carries_grpc(self) -> bool:
        """True if gRPC calls pass; the load balancers of clouds forward the HTTP port only."""
        return self.balancer is None

    @property
    def deregistration_seconds(self) -> int:
        """Seconds that calls may still reach a pod after it starts to terminate."""
        return 10 if self.balancer is None else self.balancer.deregistration_seconds

    def url(self, service: str) -> str:
        """Return the start of a client's base URL; `service` is the gateway's Service."""
        return (
            f"http://{service}" if self.host is None else f"{self.scheme}://{self.host}"
        ) + self.path_prefix

    def grpc(self, service: str) -> str | None:
        """Return host:port for gRPC clients; None if gRPC does not pass."""
        if not self.carries_grpc:
            return None
        return (
            f"{service}:{GRPC_PORT}"
            if self.host is None
            else f"{self.host}:{443 if self.scheme == 'https' else 80}"
        )


@dataclass(frozen=True, kw_only=True)
class IngressAccess(Access):
    """An Ingress, with a certificate in a Secret or, with `alb`, at the load balancer."""

    host: str
    tls: TlsSpec | None
    alb: IngressBalancer | None

    def limits(self, *, read_seconds: int, body_bytes: int) -> dict[str, str]:
        """Return the annotations that raise the limits of the class's controller to the gateway's;
        {} if the controller is not known.
        """
        if self.alb is not None or self.ingress_class != _INGRESS_NGINX:
            return {}
        values = {
            "read-timeout": read_seconds,
            "send-timeout": read_seconds,
            "body-size": body_bytes,
            "buffering": "off",
            "request-buffering": "off",
        }
        return {f"{_NGINX_PROXY}{name}": str(value) for name, value in values.items()}

    @property
    def entry_point(self) -> str:
        return (
            "Ingress of"
            f" {'the default class' if self.ingress_class is None else f'class {self.ingress_class}'}"
        )

    @property
    def certificate(self) -> str | None:
        return (
            super().certificate
            if self.tls is None
            else " of ".join(filter(None, (self.tls.secret_name, self.tls.cluster_issuer)))
        )


@dataclass(frozen=True, kw_only=True)
class GatewayApiAccess(Access):
    """Routes on the existing Gateway `parent`, which has its own TLS settings."""

    parent: GatewayParent

    @property
    def entry_point(self) -> str:
        listener = self.parent.section_name
        return (
            super().entry_point
            if listener is None
            else f"{super().entry_point}, listener {listener}"
        )


@dataclass(frozen=True, kw_only=True)
class LoadBalancerAccess(Access):
    """A network load balancer that terminates TLS and forwards connections."""

    nlb: ServiceBalancer


def gateway_api_access(host: str, parent: GatewayParent) -> GatewayApiAccess:
    return GatewayApiAccess(
        host=host,
        parent=parent,
        has_proxy=True,
        controller=f"Gateway {parent.namespace}/{parent.name}",
    )


def access_of(spec: ExposureFields) -> Access:
    host = spec.host or ""
    if spec.exposure == "ingress":
        ingress_class = (
            "the default class"
            if spec.ingress_class_name is None
            else f"class {spec.ingress_class_name}"
        )
        return IngressAccess(
            host=host,
            scheme="http" if spec.insecure else "https",
            balancer=spec.alb,
            controller=(
                f"ingress controller for {ingress_class}"
                if spec.alb is None
                else spec.alb.controller
            ),
            ingress_class=spec.ingress_class_name,
            has_proxy=True,
            tls=spec.tls,
            alb=spec.alb,
        )
    if spec.parent is not None:
        return gateway_api_access(host, spec.parent)
    if spec.nlb is not None:
        return LoadBalancerAccess(
            host=host,
            nlb=spec.nlb,
            balancer=spec.nlb,
            controller=spec.nlb.controller,
            keepalive_seconds=spec.nlb.keepalive_seconds,
        )
    return Access()


def errors(spec: ExposureFields) -> Iterator[str]:
    """Yield what is missing for the exposure of `spec`, and what belongs to another one."""
    if spec.exposure != "internal" and spec.host is None:
        yield (
            f"exposure {spec.exposure} requires host, the DNS name that clients call. Set host, or"
            " set exposure: internal."
        )
    if spec.exposure == "ingress":
        yield from _alb_errors(spec)
        if spec.tls is None and spec.alb is None and not spec.insecure:
            yield (
                "Keys must not cross the network in plain text. Set tls: {secretName: ...}, or"
                " insecure: true for a trial."
            )
        if spec.tls is not None and spec.insecure:
            yield "insecure: true contradicts tls. Remove one of them."
    else:
        fields = {
            "tls": spec.tls,
            "alb": spec.alb,
            "insecure": spec.insecure,
            "ingressClassName": spec.ingress_class_name,
        }
        yield from (
            f"{key} requires exposure ingress, not {spec.exposure}. Remove {key}."
            for key, value in fields.items()
            if value
        )
    for key, balancer in (("alb", spec.alb), ("nlb", spec.nlb)):
        yield from () if balancer is None else balancer.errors(key, spec.drain_seconds)
    if (spec.exposure == "loadBalancer") != (spec.nlb is not None):
        yield (
            "exposure: loadBalancer and nlb require each other. Set both (nlb needs"
            " certificateArn), or neither."
        )
    if (spec.exposure == "gatewayApi") != (spec.parent is not None):
        yield (
            "exposure: gatewayApi and parent require each other. Set both (parent needs name and"
            " namespace of a Gateway), or neither."
        )


def _alb_errors(spec: ExposureFields) -> Iterator[str]:
    if spec.alb is None:
        return
    for key, value in {"tls": spec.tls, "insecure: true": spec.insecure}.items():
        if value:
            yield f"{key} contradicts alb, which uses alb.certificateArn. Remove one of them."
    if spec.ingress_class_name is None:
        yield (
            f"alb requires ingressClassName, the class of the {spec.alb.controller}. It is often"
            " alb."
        )
    if spec.read_timeout_seconds > spec.alb.longest_read_seconds:
        yield (
            f"readTimeoutSeconds is {spec.read_timeout_seconds}. The maximum with alb is"
            f" {spec.alb.longest_read_seconds}, because the load balancer closes idle connections."
            " Lower it."
        )


def route_notes(access: Access, *, grpc: bool, differences: Iterable[str]) -> Iterator[str]:
    """Yield what this stack cannot configure for routes on a Gateway, and the `differences` from
    nginx; `grpc`: gRPC calls pass it.
    """
    gateway = access.entry_point.partition(",")[0]
    if isinstance(access, GatewayApiAccess) and access.parent.section_name is None:
        yield (
            f"keys cross the network in plain text on every listener of the {gateway} without TLS. "
            "Set parent.sectionName to a listener with TLS."
        )
    if isinstance(access, GatewayApiAccess) and grpc:
        yield (
            "a GRPCRoute cannot set a timeout, and an Envoy Gateway ends calls after 15 s. Attach"
            " a BackendTrafficPolicy with timeout.http.requestTimeout 0s, or the equivalent of the"
            f" {gateway}, to the route gateway-grpc."
        )
    yield from differences
