"""Notes for the plan: what the stack cannot configure for routes on a Gateway, and how they differ from the nginx gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.gateway.exposure_spec import GatewayParent
    from components.gateway.spec import GatewaySpec

# From the sources of Envoy Gateway v1.9, read 2026-08.
ENVOY_DIFFERENCES = (
    "the Envoy Gateway reads every valid key in plain text from the Secret gateway-clients; the nginx gateway stores only hashes",
    "Envoy calls its API key filter work in progress and excludes it from its threat model (warning at start, 1.40)",
    "calls to unlisted routes get 404 before any key is checked, and error messages are Envoy's, not those of the OpenAI API",
    "if a call has two different keys, the one in Authorization is used; the server receives the key id (chat_2), not the consumer's name",
    "query strings and unlisted headers reach the servers; known identity headers are removed",
    "body size, request rates, the access log and connection draining are configured on the Gateway, not in this stack",
)


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
