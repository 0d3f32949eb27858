"""A network load balancer of AWS before the proxy: what a user writes, and the annotations that say it.

The AWS Load Balancer Controller, which belongs to the cluster, makes the load balancer. It ends TLS on 443 alone, so no key can
cross the network in clear. gRPC does not pass it: its port keeps to the cluster.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.gateway.alb import CertificateArn, Network
from components.spec import Spec

LOAD_BALANCER_CLASS = "service.k8s.aws/nlb"
KEEPALIVE_SECONDS = 60
"""How often a silent connection is probed: a TLS listener forgets one after 350 s, whatever is set, unless probes pass."""
# Limit of the service: deregistration_delay.timeout_seconds (AWS, 2026-11).
_LONGEST_DEREGISTRATION_SECONDS = 3600
# Annotation keys as the controller's documentation spells them (docs/guide/service/annotations.md).
_PREFIX = "service.beta.kubernetes.io/aws-load-balancer"


class NlbSpec(Spec):
    """A load balancer that the AWS Load Balancer Controller makes for a Service of type LoadBalancer."""

    certificate_arn: CertificateArn
    """The certificate that it presents; it reads no Kubernetes Secret."""
    scheme: Literal["internal", "internet-facing"] = "internal"
    """Whether it has addresses in the VPC alone, or on the internet."""
    inbound_cidrs: Annotated[list[Network], Field(min_length=1, max_length=50)] | None = None
    """The networks that may connect; with scheme internet-facing they must be named, 0.0.0.0/0 if all are meant."""


def annotations(spec: NlbSpec, *, drain_seconds: int) -> dict[str, str]:
    """What tells the controller to make it; pods leave within `drain_seconds`."""
    leaving = min(_LONGEST_DEREGISTRATION_SECONDS, drain_seconds)
    made = {
        "scheme": spec.scheme,
        # To pods directly: no node port opens, and connections end where they are drained.
        "nlb-target-type": "ip",
        "ssl-cert": spec.certificate_arn,
        "ssl-ports": "443",
        "backend-protocol": "tcp",
        "attributes": "load_balancing.cross_zone.enabled=true",
        "target-group-attributes": f"deregistration_delay.timeout_seconds={leaving}",
    }
    return {f"{_PREFIX}-{key}": value for key, value in made.items()}
