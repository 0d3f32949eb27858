"""Coverage of the internet by a list of CIDR blocks. It is computed from the addresses, so no spelling is special."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Blocks that no stranger on the internet has an address in (IANA special-purpose registries, read 2026-11-22).
_PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
            *("192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
            *("::/16", "64:ff9b::/96", "100::/64", "2001:db8::/32", "fc00::/6", "fe80::/9", "ff00::/8"),
        ),
    )
)
# The largest block of one organization is a /8 of IPv4 and a /16 of IPv6. Larger blocks do not limit anyone.
_LARGEST = {4: 2**24, 6: 2**112}


def network(text: str) -> Network:
    """The block that `text` names; bits of a host are ignored, as Kubernetes and AWS ignore them. Raises ValueError."""
    return ipaddress.ip_network(text.strip(), strict=False)


def is_everybody(blocks: Iterable[Network]) -> bool:
    """True if `blocks` together cover more public addresses than one organisation holds."""
    left = without(blocks, _PRIVATE)
    return any(_size(left, version) > most for version, most in _LARGEST.items())


def without(blocks: Iterable[Network], holes: Iterable[Network]) -> list[Network]:
    """The parts of `blocks` outside `holes`."""
    left = list(blocks)
    for hole in holes:
        left = [part for block in left for part in _without(block, hole)]
    return left


def _size(blocks: Iterable[Network], version: int) -> int:
    same = (block for block in blocks if block.version == version)
    return sum(block.num_addresses for block in ipaddress.collapse_addresses(same))  # pyrefly: ignore[bad-specialization] - one version


def _without(block: Network, hole: Network) -> Iterator[Network]:
    if block.version != hole.version or not block.overlaps(hole):
        yield block
    elif hole.subnet_of(block) and hole != block:  # pyrefly: ignore[bad-argument-type] - one version
        yield from block.address_exclude(hole)  # pyrefly: ignore[bad-argument-type] - one version
