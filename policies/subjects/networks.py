"""Network policies: what they isolate and admit, and when CIDR blocks cover the internet."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from policies.engine.fields import Field, MalformedFieldError
from policies.engine.resource import Resource

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


NETWORK_POLICY = "kubernetes:networking.k8s.io:NetworkPolicy"


def sides_of(policy: Resource) -> set[str]:
    """`Ingress`, `Egress` or both: which traffic of its pods a policy isolates, as Kubernetes takes it where nothing is said. Raises FieldError."""
    given = set(policy.at("spec", "policyTypes").texts())
    if given:
        return given
    return {"Ingress", "Egress"} if policy.at("spec", "egress").has_items else {"Ingress"}


def opens(peers: Iterable[Field]) -> bool:
    """True if peers together are more addresses than one organisation has, or every pod of the cluster. Raises FieldError."""
    listed = list(peers)
    return any(map(_is_every_pod, listed)) or admits_everybody(each.at("ipBlock") for each in listed if not each.at("ipBlock").absent)


def admits_everybody(blocks: Iterable[Field]) -> bool:
    """True if blocks, each a `cidr` with its `except`, cover the internet together. Raises FieldError."""
    parts: list[Network] = []
    for each in blocks:
        holes = [block_of(hole) for hole in each.at("except").each()]
        parts += without([block_of(each.at("cidr"))], holes)
    return is_everybody(parts)


def block_of(field: Field) -> Network:
    """The block of addresses that a field names. Raises FieldError."""
    try:
        return network(field.text())
    except ValueError:
        raise MalformedFieldError(field, "a block of addresses") from None


def _is_every_pod(peer: Field) -> bool:
    if not peer.at("ipBlock").absent:
        return False
    if peer.at("namespaceSelector").absent:
        # Pods of the policy's own namespace; without labels, all of them.
        return not peer.at("podSelector").absent and not names(peer.at("podSelector"))
    return not names(peer.at("namespaceSelector")) and not names(peer.at("podSelector"))


def isolates(policy: Resource, side: str) -> bool:
    """True if a policy denies that side of all pods of its namespace but for what it names. Raises FieldError."""
    pods = policy.at("spec", "podSelector")
    if side not in sides_of(policy) or pods.at("matchLabels").value or pods.at("matchExpressions").value:
        return False
    peers_at, rules = ("from", policy.at("spec", "ingress")) if side == "Ingress" else ("to", policy.at("spec", "egress"))
    for rule in rules.each():
        peers = list(rule.at(peers_at).each())
        if admits_everybody(peer.at("ipBlock") for peer in peers if not peer.at("ipBlock").absent):
            return False
        # The address of name servers is not known, so egress may name a port only. Ingress must name its peers.
        if not peers and (side == "Ingress" or not rule.at("ports").has_items):
            return False
    return True


def names(selector: Field) -> bool:
    """True if a selector of labels leaves something out: that a label is there, or is not one value, leaves out next to nothing."""
    listed = (each.at("operator").text() in ("In", "DoesNotExist") for each in selector.at("matchExpressions").each())
    return bool(selector.at("matchLabels").value) or any(listed)
