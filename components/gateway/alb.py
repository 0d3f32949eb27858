"""An AWS Application Load Balancer in front of the gateway: its settings, and the Ingress annotations that create it.

It does not forward gRPC: the gRPC port is reachable only inside the cluster.
"""

from __future__ import annotations

from typing import ClassVar

from components.gateway.elb import TLS_POLICY, BalancerSpec, deregistration

# Limit of the service: idle_timeout.timeout_seconds (AWS, 2026-11).
LONGEST_IDLE_SECONDS = 4000
"""Maximum idle timeout, for connections to clients and to the gateway."""
# So that the gateway's own 504, with its error message, comes before the load balancer's.
_IDLE_MARGIN_SECONDS = 10
LONGEST_READ_SECONDS = LONGEST_IDLE_SECONDS - _IDLE_MARGIN_SECONDS
# Annotation keys as the controller's documentation spells them (docs/guide/ingress/annotations.md).
_PREFIX = "alb.ingress.kubernetes.io"


class AlbSpec(BalancerSpec):
    """An AWS Application Load Balancer that the AWS Load Balancer Controller creates for the Ingress."""

    field: ClassVar[str] = "alb"
    # Until the controller and the service have noticed that the pod terminates.
    deregistration_seconds: ClassVar[int] = 40
    load_balancer_services: ClassVar[int] = 0


def annotations(spec: AlbSpec, *, read_seconds: int, drain_seconds: int) -> dict[str, str]:
    """Return the Ingress annotations; `read_seconds` is the read timeout, `drain_seconds` the time that terminating pods have to finish."""
    values = {
        "scheme": spec.scheme,
        # Directly to pods: the Service is not a NodePort, and connections end at the pod that drains them.
        "target-type": "ip",
        "certificate-arn": spec.certificate_arn,
        "ssl-policy": TLS_POLICY,
        "listen-ports": '[{"HTTPS":443}]',
        "load-balancer-attributes": f"idle_timeout.timeout_seconds={min(LONGEST_IDLE_SECONDS, read_seconds + _IDLE_MARGIN_SECONDS)}",
        "target-group-attributes": deregistration(spec, drain_seconds),
        # This port has no route without a key, so a healthy gateway answers 401 or 404.
        "healthcheck-path": "/",
        "success-codes": "401,404",
    }
    if spec.inbound_cidrs is not None:
        values["inbound-cidrs"] = ",".join(spec.inbound_cidrs)
    return {f"{_PREFIX}/{key}": value for key, value in values.items()}
