"""How clients reach a gateway: a union by `exposure`, each with the settings of that exposure and the capabilities that others ask for.

In YAML these settings are flat fields of the gateway; `NginxGatewaySpec.access` collects those of its exposure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from components.platforms.aws.load_balancers import KEEPALIVE_SECONDS, LONGEST_READ_SECONDS, AlbSpec, BalancerSpec, NlbSpec
from components.spec import DnsLabel, DnsName, Spec

if TYPE_CHECKING:
    from components.gateway.spec import NginxGatewaySpec

GRPC_PORT = 8082
"""The port of the gateway's Service for gRPC."""


class TlsSpec(Spec):
    """The certificate that the Ingress uses."""

    secret_name: DnsName
    """A Secret of type kubernetes.io/tls in the stack's namespace. With clusterIssuer, cert-manager creates it."""
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


@dataclass(frozen=True, kw_only=True)
class InternalAccess:
    """Only pods of the cluster reach the gateway, by its Service."""

    is_public: ClassVar[bool] = False
    """True if clients outside the cluster reach the gateway."""
    has_proxy: ClassVar[bool] = False
    """True if a proxy in front keeps idle connections to the gateway."""
    keepalive_seconds: ClassVar[int] = 0
    """Interval of TCP keepalive probes that the way to clients needs, 0 for none."""

    @property
    def scheme(self) -> str:
        """The URL scheme that servers see as the clients'."""
        return "https"

    @property
    def balancer(self) -> BalancerSpec | None:
        """The load balancer of a cloud in front of the pods, None if there is none."""
        return None

    @property
    def controller(self) -> str | None:
        """The object or controller that must exist in the cluster so that clients reach the gateway, None if none must."""
        return None if self.balancer is None else "AWS Load Balancer Controller"

    @property
    def ingress_class(self) -> str | None:
        """The class of the Ingress, None if there is none or the cluster's default is meant."""
        return None

    @property
    def carries_grpc(self) -> bool:
        """True if gRPC calls pass; the load balancers of AWS forward the HTTP port only."""
        return self.balancer is None

    @property
    def deregistration_seconds(self) -> int:
        """Seconds that calls may still reach a pod after it starts to terminate."""
        return 10 if self.balancer is None else self.balancer.deregistration_seconds

    def url(self, service: str) -> str:
        """Return the start of a client's base URL; `service` is the gateway's Service."""
        return f"http://{service}"

    def grpc(self, service: str) -> str | None:
        """Return host:port for gRPC clients; None if gRPC does not pass."""
        return f"{service}:{GRPC_PORT}"


@dataclass(frozen=True, kw_only=True)
class _PublicAccess(InternalAccess):
    host: str
    is_public: ClassVar[bool] = True

    def url(self, service: str) -> str:
        """Return the URL of the host."""
        del service
        return f"{self.scheme}://{self.host}"

    def grpc(self, service: str) -> str | None:
        """Return the host with the port of its scheme."""
        del service
        return f"{self.host}:{443 if self.scheme == 'https' else 80}" if self.carries_grpc else None


@dataclass(frozen=True, kw_only=True)
class IngressAccess(_PublicAccess):
    """An Ingress, with a certificate in a Secret or, with `alb`, at AWS."""

    tls: TlsSpec | None
    alb: AlbSpec | None
    insecure: bool
    ingress_class_name: str | None
    has_proxy: ClassVar[bool] = True

    @property
    def balancer(self) -> BalancerSpec | None:
        """The application load balancer, if there is one."""
        return self.alb

    @property
    def ingress_class(self) -> str | None:
        """The class that the user wrote."""
        return self.ingress_class_name

    @property
    def controller(self) -> str | None:
        """The controller of the ingress class."""
        ingress_class = "the default class" if self.ingress_class_name is None else f"class {self.ingress_class_name}"
        return super().controller or f"ingress controller for {ingress_class}"

    @property
    def scheme(self) -> str:
        """Plain HTTP for trials, otherwise HTTPS."""
        return "http" if self.insecure else "https"


@dataclass(frozen=True, kw_only=True)
class GatewayApiAccess(_PublicAccess):
    """Routes on the existing Gateway `parent`, which has its own TLS settings."""

    parent: GatewayParent
    has_proxy: ClassVar[bool] = True

    @property
    def controller(self) -> str | None:
        """The Gateway."""
        return f"Gateway {self.parent.namespace}/{self.parent.name}"


@dataclass(frozen=True, kw_only=True)
class LoadBalancerAccess(_PublicAccess):
    """A network load balancer that terminates TLS and forwards connections."""

    nlb: NlbSpec
    keepalive_seconds: ClassVar[int] = KEEPALIVE_SECONDS

    @property
    def balancer(self) -> BalancerSpec | None:
        """The network load balancer."""
        return self.nlb


Access: TypeAlias = InternalAccess | IngressAccess | GatewayApiAccess | LoadBalancerAccess


def access_of(spec: NginxGatewaySpec) -> Access:
    """Return the exposure of a valid `spec`."""
    host = spec.host or ""
    if spec.exposure == "ingress":
        ingress_class = spec.ingress_class_name
        return IngressAccess(host=host, tls=spec.tls, alb=spec.alb, insecure=spec.insecure, ingress_class_name=ingress_class)
    if spec.parent is not None:
        return GatewayApiAccess(host=host, parent=spec.parent)
    return InternalAccess() if spec.nlb is None else LoadBalancerAccess(host=host, nlb=spec.nlb)


def errors(spec: NginxGatewaySpec) -> Iterator[str]:
    """Yield what is missing for the exposure of `spec`, and what belongs to another one."""
    if spec.exposure != "internal" and spec.host is None:
        yield f"exposure {spec.exposure} requires host, the DNS name that clients call. Set host, or set exposure: internal."
    if spec.exposure == "ingress":
        yield from _alb_errors(spec)
        if spec.tls is None and spec.alb is None and not spec.insecure:
            yield "Keys must not cross the network in plain text. Set tls: {secretName: ...}, or insecure: true for a trial."
        if spec.tls is not None and spec.insecure:
            yield "insecure: true contradicts tls. Remove one of them."
    else:
        fields = {"tls": spec.tls, "alb": spec.alb, "insecure": spec.insecure, "ingressClassName": spec.ingress_class_name}
        yield from (f"{key} requires exposure ingress, not {spec.exposure}. Remove {key}." for key, value in fields.items() if value)
    for key, balancer in (("alb", spec.alb), ("nlb", spec.nlb)):
        yield from () if balancer is None else balancer.errors(key, spec.drain_seconds)
    if (spec.exposure == "loadBalancer") != (spec.nlb is not None):
        yield "exposure: loadBalancer and nlb require each other. Set both (nlb needs certificateArn), or neither."
    if (spec.exposure == "gatewayApi") != (spec.parent is not None):
        yield "exposure: gatewayApi and parent require each other. Set both (parent needs name and namespace of a Gateway), or neither."


def _alb_errors(spec: NginxGatewaySpec) -> Iterator[str]:
    if spec.alb is None:
        return
    for key, value in {"tls": spec.tls, "insecure: true": spec.insecure}.items():
        if value:
            yield f"{key} contradicts alb, which uses alb.certificateArn. Remove one of them."
    if spec.ingress_class_name is None:
        yield "alb requires ingressClassName, the class of the AWS Load Balancer Controller. It is often alb."
    if spec.read_timeout_seconds > LONGEST_READ_SECONDS:
        yield (
            f"readTimeoutSeconds is {spec.read_timeout_seconds}. The maximum with alb is {LONGEST_READ_SECONDS}, "
            "because the load balancer closes idle connections. Lower it."
        )
