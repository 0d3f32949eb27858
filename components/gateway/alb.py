"""An application load balancer of AWS before the proxy: what a user writes, and the annotations that say it.

The AWS Load Balancer Controller, which belongs to the cluster, makes the load balancer. It listens on 443 alone, so no key can
cross the network in clear. gRPC does not pass it: its port keeps to the cluster.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from components.spec import Spec

# Limits of the service: idle_timeout.timeout_seconds and deregistration_delay.timeout_seconds (AWS, 2026-11).
_LONGEST_IDLE_SECONDS = 4000
_LONGEST_DEREGISTRATION_SECONDS = 3600
# So that the proxy's own 504, with its words, comes before the load balancer's.
_IDLE_MARGIN_SECONDS = 10
LONGEST_READ_SECONDS = _LONGEST_IDLE_SECONDS - _IDLE_MARGIN_SECONDS
# Annotation keys as the controller's documentation spells them (docs/guide/ingress/annotations.md).
_PREFIX = "alb.ingress.kubernetes.io"


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


class AlbSpec(Spec):
    """A load balancer that the AWS Load Balancer Controller makes for the ingress."""

    certificate_arn: CertificateArn
    """The certificate that it presents; it reads no Kubernetes Secret."""
    scheme: Literal["internal", "internet-facing"] = "internal"
    """Whether it has addresses in the VPC alone, or on the internet."""
    inbound_cidrs: Annotated[list[Network], Field(min_length=1, max_length=50)] | None = None
    """The networks that may connect; with scheme internet-facing they must be named, 0.0.0.0/0 if all are meant."""


def annotations(spec: AlbSpec, *, read_seconds: int, drain_seconds: int) -> dict[str, str]:
    """What tells the controller to make it; streams may be silent for `read_seconds`, and pods leave within `drain_seconds`."""
    idle = min(_LONGEST_IDLE_SECONDS, read_seconds + _IDLE_MARGIN_SECONDS)
    leaving = min(_LONGEST_DEREGISTRATION_SECONDS, drain_seconds)
    made = {
        "scheme": spec.scheme,
        # To pods directly: the Service is no NodePort, and connections end where they are drained.
        "target-type": "ip",
        "certificate-arn": spec.certificate_arn,
        "listen-ports": '[{"HTTPS":443}]',
        "load-balancer-attributes": f"idle_timeout.timeout_seconds={idle}",
        "target-group-attributes": f"deregistration_delay.timeout_seconds={leaving}",
        # The proxy has no open route on this port; refusing a call without a key is how it shows that it lives.
        "healthcheck-path": "/",
        "success-codes": "401,404",
    }
    if spec.inbound_cidrs is not None:
        made["inbound-cidrs"] = ",".join(spec.inbound_cidrs)
    return {f"{_PREFIX}/{key}": value for key, value in made.items()}
