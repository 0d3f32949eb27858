"""Settings that the application and the network load balancers of AWS share, and how their pods are registered and deregistered.

The AWS Load Balancer Controller (2.6 or later) of the cluster creates them. They listen with TLS on port 443 only, so keys never
cross the network in plain text.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from components.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The controller's default is ELBSecurityPolicy-2016-08, which still allows TLS 1.0 (the controller's documentation, 2026-11).
TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
POD_GATES: Mapping[str, str] = {"elbv2.k8s.aws/pod-readiness-gate-inject": "enabled"}
"""Namespace labels that keep a new pod unready until the load balancer sends it calls; until then the old pod stays."""
# Limit of the service: deregistration_delay.timeout_seconds (AWS, 2026-11).
_MAX_DEREGISTRATION_SECONDS = 3600


def _network(text: str) -> str:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network ({error}). Use CIDR notation, for example 198.51.100.0/24.") from None
    return str(network)


Network = Annotated[str, AfterValidator(_network), Field(description="A network in CIDR notation, for example 198.51.100.0/24.")]
CertificateArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws[-a-z]*:acm:[-a-z0-9]+:[0-9]{12}:certificate/[-0-9a-zA-Z]+$", max_length=200),
    Field(description="The ARN of an ACM certificate in the region of the cluster."),
]


class BalancerSpec(Spec):
    """A load balancer that the AWS Load Balancer Controller creates."""

    certificate_arn: CertificateArn
    """The ACM certificate that it uses. It cannot read a Kubernetes Secret."""
    scheme: Literal["internal", "internet-facing"] = "internal"
    """Whether it has addresses only in the VPC (internal) or on the internet (internet-facing)."""
    inbound_cidrs: Annotated[list[Network], Field(min_length=1, max_length=50)] | None = None
    """The networks that may connect. Required for scheme internet-facing; use 0.0.0.0/0 to allow all."""

    field: ClassVar[str]
    """The field of the gateway that contains these settings."""
    deregistration_seconds: ClassVar[int]
    """Seconds that calls may still reach a pod after it starts to terminate."""
    load_balancer_services: ClassVar[int]
    """Number of Services of type LoadBalancer that it needs."""

    def errors(self, key: str, drain_seconds: int) -> Iterator[str]:
        """Yield the validation errors of the load balancer at `key` of the gateway, whose pods drain for `drain_seconds`."""
        if self.scheme == "internet-facing" and self.inbound_cidrs is None:
            yield f"scheme internet-facing requires {key}.inboundCidrs, the networks that may connect. Use [0.0.0.0/0] to allow all."
        maximum = _MAX_DEREGISTRATION_SECONDS - self.deregistration_seconds
        if drain_seconds > maximum:
            yield f"drainSeconds is {drain_seconds}. The maximum with {key} is {maximum}, because AWS ends longer connections. Lower it."


def deregistration(spec: BalancerSpec, drain_seconds: int) -> str:
    """Return the target group attribute that keeps the connections of a terminating pod until its last response may have ended."""
    return f"deregistration_delay.timeout_seconds={spec.deregistration_seconds + drain_seconds}"
