"""An AWS Network Load Balancer in front of the gateway: its settings, and the Service annotations that create it.

It terminates TLS and does not forward gRPC: the gRPC port is reachable only inside the cluster.
"""

from __future__ import annotations

from typing import ClassVar

from components.gateway.elb import TLS_POLICY, BalancerSpec, deregistration

LOAD_BALANCER_CLASS = "service.k8s.aws/nlb"
KEEPALIVE_SECONDS = 60
"""Interval of TCP keepalive probes. A TLS listener drops a connection after 350 s without data or probes; this cannot be configured."""
# Annotation keys as the controller's documentation spells them (docs/guide/service/annotations.md).
_PREFIX = "service.beta.kubernetes.io/aws-load-balancer"


class NlbSpec(BalancerSpec):
    """An AWS Network Load Balancer that the AWS Load Balancer Controller creates for a Service of type LoadBalancer."""

    field: ClassVar[str] = "nlb"
    # New connections arrived for up to two minutes, regardless of the configured delay (kubernetes-sigs/aws-load-balancer-controller#2366, 2022;
    # aws/containers-roadmap#470, 2023).
    deregistration_seconds: ClassVar[int] = 150
    load_balancer_services: ClassVar[int] = 1


def annotations(spec: NlbSpec, *, drain_seconds: int) -> dict[str, str]:
    """Return the Service annotations; terminating pods finish within `drain_seconds`."""
    values = {
        "scheme": spec.scheme,
        # Directly to pods: no node port opens, and connections end at the pod that drains them.
        "nlb-target-type": "ip",
        "ssl-cert": spec.certificate_arn,
        "ssl-ports": "443",
        "ssl-negotiation-policy": TLS_POLICY,
        "backend-protocol": "tcp",
        "attributes": "load_balancing.cross_zone.enabled=true",
        "target-group-attributes": deregistration(spec, drain_seconds),
    }
    return {f"{_PREFIX}-{key}": value for key, value in values.items()}
