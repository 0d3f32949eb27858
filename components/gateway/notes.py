"""Notes for the plan: what the stack cannot configure for routes on a Gateway, and how they differ from the nginx gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.gateway.exposure_spec import GatewayParent
    from components.gateway.spec import GatewaySpec


def notes(spec: GatewaySpec, parent: GatewayParent, *, grpc: bool) -> Iterator[str]:
    """Yield one line per note for routes on the Gateway `parent`; `grpc` is true if a model serves gRPC."""
    gateway = f"{parent.namespace}/{parent.name}"
    if parent.section_name is None:
        yield (
            f"keys cross the network in plain text on every listener of the Gateway {gateway} without TLS; "
            "set parent.sectionName to a listener with TLS"
        )
    if grpc and spec.carries_grpc:
        yield (
            "a GRPCRoute cannot set a timeout, and an Envoy Gateway ends calls after 15 s: attach a BackendTrafficPolicy with "
            f"timeout.http.requestTimeout 0s, or the equivalent of the Gateway {gateway}, to the route gateway-grpc"
        )
    yield from spec.differences
