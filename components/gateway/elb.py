"""What the application and the network load balancers of AWS have in common: what a user writes, and pods that come and go behind them.

The AWS Load Balancer Controller (2.6 or later), which belongs to the cluster, makes them. They listen with TLS on 443 alone, so no
key can cross the network in clear.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from components.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

# Without a word of ours it would be ELBSecurityPolicy-2016-08, which still speaks TLS 1.0 (the controller's documentation, 2026-11).
TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
POD_GATES: Mapping[str, str] = {"elbv2.k8s.aws/pod-readiness-gate-inject": "enabled"}
"""Labels of a namespace by which a new pod counts as ready only once the load balancer sends it calls; until then the old one stays."""
# Limit of the service: deregistration_delay.timeout_seconds (AWS, 2026-11).
_LONGEST_DEREGISTRATION_SECONDS = 3600


def _network(text: str) -> str:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no network ({error}); write one such as 198.51.100.0/24") from None
    return str(network)


Network = Annotated[str, AfterValidator(_network), Field(description="A network in CIDR notation, such as 198.51.100.0/24.")]
CertificateArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws[-a-z]*:acm:[-a-z0-9]+:[0-9]{12}:certificate/[-0-9a-zA-Z]+$", max_length=200),
    Field(description="A certificate in ACM, in the region of the cluster."),
]


class BalancerSpec(Spec):
    """A load balancer that the AWS Load Balancer Controller makes."""

    certificate_arn: CertificateArn
    """The certificate that it presents; it reads no Kubernetes Secret."""
    scheme: Literal["internal", "internet-facing"] = "internal"
    """Whether it has addresses in the VPC alone, or on the internet."""
    inbound_cidrs: Annotated[list[Network], Field(min_length=1, max_length=50)] | None = None
    """The networks that may connect; with scheme internet-facing they must be named, 0.0.0.0/0 if all are meant."""

    @model_validator(mode="after")
    def _the_internet_is_meant(self) -> Self:
        if self.scheme == "internet-facing" and self.inbound_cidrs is None:
            raise ValueError("scheme internet-facing needs inboundCidrs: the networks that may connect ([0.0.0.0/0] if all are meant)")
        return self


def longest_drain(leaving_seconds: int) -> int:
    """The longest drain in seconds that the service grants to pods that still get calls for `leaving_seconds` after they began to leave."""
    return _LONGEST_DEREGISTRATION_SECONDS - leaving_seconds


def deregistration(leaving_seconds: int, drain_seconds: int) -> str:
    """The attribute of target groups that keeps the connections of a leaving pod until its last answer may have ended."""
    return f"deregistration_delay.timeout_seconds={min(_LONGEST_DEREGISTRATION_SECONDS, leaving_seconds + drain_seconds)}"
