"""A network load balancer of AWS before the proxy: what a user writes, and the annotations that say it.

It ends TLS itself. gRPC does not pass it: its port keeps to the cluster.
"""

from __future__ import annotations

from typing import ClassVar

from components.gateway.elb import TLS_POLICY, BalancerSpec, deregistration

LOAD_BALANCER_CLASS = "service.k8s.aws/nlb"
KEEPALIVE_SECONDS = 60
"""How often a silent connection is probed: a TLS listener forgets one after 350 s, whatever is set, unless probes pass."""
# Annotation keys as the controller's documentation spells them (docs/guide/service/annotations.md).
_PREFIX = "service.beta.kubernetes.io/aws-load-balancer"


class NlbSpec(BalancerSpec):
    """A load balancer that the AWS Load Balancer Controller makes for a Service of type LoadBalancer."""

    # New connections were seen for two minutes, whatever delay was set (kubernetes-sigs/aws-load-balancer-controller#2366, 2022;
    # aws/containers-roadmap#470, 2023).
    leaving_seconds: ClassVar[int] = 150


def annotations(spec: NlbSpec, *, drain_seconds: int) -> dict[str, str]:
    """What tells the controller to make it; leaving pods finish within `drain_seconds`."""
    made = {
        "scheme": spec.scheme,
        # To pods directly: no node port opens, and connections end where they are drained.
        "nlb-target-type": "ip",
        "ssl-cert": spec.certificate_arn,
        "ssl-ports": "443",
        "ssl-negotiation-policy": TLS_POLICY,
        "backend-protocol": "tcp",
        "attributes": "load_balancing.cross_zone.enabled=true",
        "target-group-attributes": deregistration(spec, drain_seconds),
    }
    return {f"{_PREFIX}-{key}": value for key, value in made.items()}
