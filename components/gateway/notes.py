"""What routes on a Gateway leave to others, or do otherwise than our own proxy, for the person who reads the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.gateway.spec import GatewayParent, GatewaySpec

# Read in the sources of Envoy Gateway v1.9, 2026-08.
_ENVOY = (
    "the Envoy Gateway reads every valid key in clear from the Secret gateway-clients; our own proxy gets hashes alone",
    "Envoy itself calls its filter for API keys work in progress, outside its threat model (its warning at start, 1.40)",
    "calls that are no listed route are answered 404 before any key is looked at, and refusals are in Envoy's words, not the API's",
    "of two different keys in one call the one in Authorization counts; the server hears the key's id (chat_2), not the consumer's name",
    "query strings and headers that nobody lists reach the servers; of claims of identity the known ones are taken out",
    "sizes of bodies, rates, the access log and how proxies leave are set up with the Gateway, not here",
)


def notes(spec: GatewaySpec, parent: GatewayParent, *, grpc: bool) -> Iterator[str]:
    """A line for each thing that the stack cannot settle for routes on the Gateway `parent`; `grpc` says whether a model speaks it."""
    gateway = f"{parent.namespace}/{parent.name}"
    if parent.section_name is None:
        yield f"keys cross the network in clear on every listener of the Gateway {gateway} without TLS; name one with TLS in parent.sectionName"
    if grpc and spec.implementation == "nginx":
        yield (
            f"a GRPCRoute cannot say how long a call may take, and an Envoy Gateway ends it after 15 s: give the route gateway-grpc a "
            f"BackendTrafficPolicy with timeout.http.requestTimeout 0s, or what the Gateway {gateway} has for that"
        )
    if spec.implementation == "envoyGateway":
        yield from _ENVOY
