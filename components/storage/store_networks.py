"""The networks of a store's servers, as a user writes them."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Annotated

from pydantic import AfterValidator, Field

# The instance metadata services of AWS: egress that includes them gives a pod the identity of its node.
_METADATA = (ip_address("169.254.169.254"), ip_address("fd00:ec2::254"))


def _network(text: str) -> str:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network ({error}). Use CIDR notation, for example 10.20.0.0/24") from None
    if any(address in network for address in _METADATA):
        raise ValueError(f"{text!r} contains an instance metadata address. Use smaller networks that hold the store's servers only")
    return str(network)


StoreNetworks = Annotated[
    tuple[Annotated[str, AfterValidator(_network), Field(description="A network in CIDR notation, for example 10.20.0.0/24.")], ...],
    Field(max_length=50),
]
