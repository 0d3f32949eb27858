"""The load balancers of AWS in front of the gateway: their settings, and the annotations that
create them.

The AWS Load Balancer Controller (2.6 or later) of the cluster creates them, or EKS Auto Mode. They
listen with TLS on port 443 only, so keys never cross the network in plain text. They do not forward
gRPC: the gRPC port is reachable only inside the cluster.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from inferplan.components.spec import Network, Spec

# The controller's default is ELBSecurityPolicy-2016-08, which still allows TLS 1.0 (the
# controller's documentation, 2026-11).
TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
# Limit of the service: idle_timeout.timeout_seconds (AWS, 2026-11).
LONGEST_IDLE_SECONDS = 4000
"""Maximum idle timeout of an application load balancer, for connections to clients and to the
gateway.
"""
# So that the gateway's own 504, with its error message, comes before the load balancer's.
_IDLE_MARGIN_SECONDS = 10
LONGEST_READ_SECONDS = LONGEST_IDLE_SECONDS - _IDLE_MARGIN_SECONDS
KEEPALIVE_SECONDS = 60
"""Interval of TCP keepalive probes. A TLS listener drops a connection after 350 s without data or
probes; this cannot be configured.
"""
# Annotation keys as the controller's documentation spells them (docs/guide/ingress/annotations.md,
# docs/guide/service/annotations.md).
_ALB_PREFIX = "alb.ingress.kubernetes.io"
_NLB_PREFIX = "service.beta.kubernetes.io/aws-load-balancer"
# Limit of the service: deregistration_delay.timeout_seconds (AWS, 2026-11).
_MAX_DEREGISTRATION_SECONDS = 3600


@dataclass(frozen=True, kw_only=True)
class LoadBalancing:
    """The names by which a controller recognizes its objects.

    `pod_gates` are namespace labels that keep a new pod unready until the load balancer sends it
    calls; until then the old pod stays.
    """

    service_class: str
    ingress_controller: str
    pod_gates: Mapping[str, str]


CONTROLLER = LoadBalancing(
    service_class="service.k8s.aws/nlb",
    ingress_controller="ingress.k8s.aws/alb",
    pod_gates={"elbv2.k8s.aws/pod-readiness-gate-inject": "enabled"},
)
"""The AWS Load Balancer Controller."""
# EKS user guide, "Create an IngressClass to configure an Application Load Balancer" and "Use
# Service Annotations to configure Network Load Balancers", read 2026-11. No page has the label: it
# is the selector of the webhook eks-load-balancing-webhook.
AUTO_MODE = LoadBalancing(
    service_class="eks.amazonaws.com/nlb",
    ingress_controller="eks.amazonaws.com/alb",
    pod_gates={"eks.amazonaws.com/pod-readiness-gate-inject": "enabled"},
)
"""The controller of EKS Auto Mode."""

CertificateArn = Annotated[
    str,
    StringConstraints(
        pattern=r"^arn:aws[-a-z]*:acm:[-a-z0-9]+:[0-9]{12}:certificate/[-0-9a-zA-Z]+$",
        max_length=200,
    ),
    Field(description="The ARN of an ACM certificate in the region of the cluster."),
]


class BalancerSpec(Spec):
    """A load balancer that the AWS Load Balancer Controller creates."""

    certificate_arn: CertificateArn
    """The ACM certificate that it uses. It cannot read a Kubernetes Secret."""
    scheme: Literal["internal", "internet-facing"] = "internal"
    """The reach of its addresses: only the VPC (internal) or the internet (internet-facing)."""
    inbound_cidrs: Annotated[list[Network], Field(min_length=1, max_length=50)] | None = None
    """The networks that may connect. Required for scheme internet-facing. Use 0.0.0.0/0 to allow
    all.
    """

    controller: ClassVar[str] = "AWS Load Balancer Controller"
    """The controller that must run in the cluster, or be part of it."""
    keepalive_seconds: ClassVar[int] = 0
    """Interval of TCP keepalive probes that connections of clients need, 0 for none."""
    field: ClassVar[str]
    """The field of the gateway that contains these settings."""
    deregistration_seconds: ClassVar[int]
    """Seconds that calls may still reach a pod after it starts to terminate."""
    load_balancer_services: ClassVar[int]
    """Number of Services of type LoadBalancer that it needs."""

    @property
    def certificate(self) -> str:
        return self.certificate_arn

    def errors(self, key: str, drain_seconds: int) -> Iterator[str]:
        """Yield the validation errors of the load balancer at `key` of the gateway, whose pods
        drain for `drain_seconds`.
        """
        if self.scheme == "internet-facing" and self.inbound_cidrs is None:
            yield (
                f"scheme internet-facing requires {key}.inboundCidrs, the networks that may"
                " connect. Use [0.0.0.0/0] to allow all."
            )
        maximum = _MAX_DEREGISTRATION_SECONDS - self.deregistration_seconds
        if drain_seconds > maximum:
            yield (
                f"drainSeconds is {drain_seconds}. The maximum with {key} is {maximum}, because AWS"
                " ends longer connections. Lower it."
            )

    def deregistration(self, drain_seconds: int) -> str:
        """Return the target group attribute that keeps the connections of a terminating pod until
        its last response may have ended.
        """
        return f"deregistration_delay.timeout_seconds={self.deregistration_seconds + drain_seconds}"


class AlbSpec(BalancerSpec):
    """An AWS Application Load Balancer that the AWS Load Balancer Controller creates for the
    Ingress.
    """

    field: ClassVar[str] = "alb"
    longest_read_seconds: ClassVar[int] = LONGEST_READ_SECONDS
    # Until the controller and the service have noticed that the pod terminates.
    deregistration_seconds: ClassVar[int] = 40
    load_balancer_services: ClassVar[int] = 0

    def annotations(self, *, read_seconds: int, drain_seconds: int) -> dict[str, str]:
        """Return the Ingress annotations; `read_seconds` is the read timeout, `drain_seconds` the
        time that terminating pods have to finish.
        """
        values = {
            "scheme": self.scheme,
            # Directly to pods: the Service is not a NodePort, and connections end at the pod that
            # drains them.
            "target-type": "ip",
            "certificate-arn": self.certificate_arn,
            "ssl-policy": TLS_POLICY,
            "listen-ports": '[{"HTTPS":443}]',
            "load-balancer-attributes": (
                f"idle_timeout.timeout_seconds={min(LONGEST_IDLE_SECONDS, read_seconds + _IDLE_MARGIN_SECONDS)}"
            ),
            "target-group-attributes": self.deregistration(drain_seconds),
            # This port has no route without a key, so a healthy gateway answers 401 or 404.
            "healthcheck-path": "/",
            "success-codes": "401,404",
        }
        if self.inbound_cidrs is not None:
            values["inbound-cidrs"] = ",".join(self.inbound_cidrs)
        return {f"{_ALB_PREFIX}/{key}": value for key, value in values.items()}


class NlbSpec(BalancerSpec):
    """An AWS Network Load Balancer that the AWS Load Balancer Controller creates for a Service of
    type LoadBalancer.
    """

    field: ClassVar[str] = "nlb"
    keepalive_seconds: ClassVar[int] = KEEPALIVE_SECONDS
    # New connections arrived for up to two minutes, regardless of the configured delay
    # (kubernetes-sigs/aws-load-balancer-controller#2366, 2022; aws/containers-roadmap#470, 2023).
    deregistration_seconds: ClassVar[int] = 150
    load_balancer_services: ClassVar[int] = 1

    def annotations(self, *, drain_seconds: int) -> dict[str, str]:
        """Return the Service annotations; terminating pods finish within `drain_seconds`."""
        values = {
            "scheme": self.scheme,
            # Directly to pods: no node port opens, and connections end at the pod that drains them.
            "nlb-target-type": "ip",
            "ssl-cert": self.certificate_arn,
            "ssl-ports": "443",
            "ssl-negotiation-policy": TLS_POLICY,
            "backend-protocol": "tcp",
            "attributes": "load_balancing.cross_zone.enabled=true",
            "target-group-attributes": self.deregistration(drain_seconds),
        }
        return {f"{_NLB_PREFIX}-{key}": value for key, value in values.items()}
