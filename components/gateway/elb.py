"""What the application and the network load balancers of AWS have in common: what a user writes, and pods that come and go behind them.

The AWS Load Balancer Controller (2.6 or later), which belongs to the cluster, makes them. They listen with TLS on 443 alone, so no
key can cross the network in clear.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from components.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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

    leaving_seconds: ClassVar[int]
    """How long calls may still come to a pod after it began to leave."""

    def faults(self, key: str, drain_seconds: int) -> Iterator[str]:
        """What is wrong with the load balancer at `key` of the gateway, whose pods finish within `drain_seconds`."""
        if self.scheme == "internet-facing" and self.inbound_cidrs is None:
            yield f"scheme internet-facing needs {key}.inboundCidrs: the networks that may connect ([0.0.0.0/0] if all are meant)"
        longest = _LONGEST_DEREGISTRATION_SECONDS - self.leaving_seconds
        if drain_seconds > longest:
            yield f"drainSeconds is {drain_seconds}, at most {longest} with {key}, which cuts what runs longer; lower it"


def deregistration(spec: BalancerSpec, drain_seconds: int) -> str:
    """The attribute of target groups that keeps the connections of a leaving pod until its last answer may have ended."""
    return f"deregistration_delay.timeout_seconds={spec.leaving_seconds + drain_seconds}"
