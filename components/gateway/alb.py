"""An application load balancer of AWS before the proxy: what a user writes, and the annotations that say it.

gRPC does not pass it: its port keeps to the cluster.
"""

from __future__ import annotations

from typing import ClassVar

from components.gateway.elb import TLS_POLICY, BalancerSpec, deregistration

# Limit of the service: idle_timeout.timeout_seconds (AWS, 2026-11).
LONGEST_IDLE_SECONDS = 4000
"""The longest that it keeps a silent connection, to clients and to the proxy alike."""
# So that the proxy's own 504, with its words, comes before the load balancer's.
_IDLE_MARGIN_SECONDS = 10
LONGEST_READ_SECONDS = LONGEST_IDLE_SECONDS - _IDLE_MARGIN_SECONDS
# Annotation keys as the controller's documentation spells them (docs/guide/ingress/annotations.md).
_PREFIX = "alb.ingress.kubernetes.io"


class AlbSpec(BalancerSpec):
    """A load balancer that the AWS Load Balancer Controller makes for the ingress."""

    # The controller and the service take their time to learn of it.
    leaving_seconds: ClassVar[int] = 40


def annotations(spec: AlbSpec, *, read_seconds: int, drain_seconds: int) -> dict[str, str]:
    """What tells the controller to make it; streams may be silent for `read_seconds`, and leaving pods finish within `drain_seconds`."""
    made = {
        "scheme": spec.scheme,
        # To pods directly: the Service is no NodePort, and connections end where they are drained.
        "target-type": "ip",
        "certificate-arn": spec.certificate_arn,
        "ssl-policy": TLS_POLICY,
        "listen-ports": '[{"HTTPS":443}]',
        "load-balancer-attributes": f"idle_timeout.timeout_seconds={min(LONGEST_IDLE_SECONDS, read_seconds + _IDLE_MARGIN_SECONDS)}",
        "target-group-attributes": deregistration(spec, drain_seconds),
        # The proxy has no open route on this port; refusing a call without a key is how it shows that it lives.
        "healthcheck-path": "/",
        "success-codes": "401,404",
    }
    if spec.inbound_cidrs is not None:
        made["inbound-cidrs"] = ",".join(spec.inbound_cidrs)
    return {f"{_PREFIX}/{key}": value for key, value in made.items()}
