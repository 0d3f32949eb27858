"""Network policies: what they isolate and admit, and when CIDR blocks cover the internet."""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from inferplan.policies.engine.fields import Field, MalformedFieldError
from inferplan.policies.engine.resource import Resource

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Blocks without public addresses (IANA special-purpose registries, read 2026-11-22).
_PRIVATE_BLOCKS = (
    *(
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
    ),
    *(
        "192.0.2.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    ),
    *("::/16", "64:ff9b::/96", "100::/64", "2001:db8::/32", "fc00::/6", "fe80::/9", "ff00::/8"),
)
_PRIVATE = tuple(map(ipaddress.ip_network, _PRIVATE_BLOCKS))
# Terms of a selector that exclude almost nothing: nearly every pod or namespace has these labels.
_EXCLUDES = re.compile(
    r"NotIn |DoesNotExist |Exists"
    r" (app|name|k8s-app|component|pod-template-hash|(app\.)?kubernetes\.io/.*)\Z"
)
# The largest block of one organization is a /8 of IPv4 and a /16 of IPv6. A larger block is open to
# everyone.
_LARGEST = {4: 2**24, 6: 2**112}
NETWORK_POLICY = "kubernetes:networking.k8s.io:NetworkPolicy"


def network(text: str) -> Network:
    """The CIDR block in `text`. Like Kubernetes and AWS, it ignores the bits of the host. Raises
    ValueError.
    """
    return ipaddress.ip_network(text.strip(), strict=False)


def is_internet(blocks: Iterable[Network]) -> bool:
    """True if `blocks` together cover more public addresses than one organization has."""
    return _is_internet(tuple(blocks))


@lru_cache
def _is_internet(blocks: tuple[Network, ...]) -> bool:
    left = without(blocks, _PRIVATE)
    return any(_size(left, version) > most for version, most in _LARGEST.items())


def without(blocks: Iterable[Network], holes: Iterable[Network]) -> list[Network]:
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


def sides_of(policy: Resource) -> set[str]:
    """`Ingress`, `Egress` or both: the traffic that a policy isolates, with the defaults of
    Kubernetes. Raises FieldError.
    """
    if types := set(policy.at("spec", "policyTypes").texts()):
        return types
    return {"Ingress", "Egress"} if policy.at("spec", "egress").has_items else {"Ingress"}


def opens(peers: Iterable[Field]) -> bool:
    """True if a peer is every pod, or the peers together cover the internet. Raises FieldError."""
    peers = list(peers)
    return any(map(_is_every_pod, peers)) or cover_internet(blocks_of(peers))


def blocks_of(peers: Iterable[Field]) -> list[Field]:
    """The `ipBlock` of each peer that has one. Raises FieldError."""
    return [each.at("ipBlock") for each in peers if not each.at("ipBlock").absent]


def cover_internet(blocks: Iterable[Field]) -> bool:
    """True if the blocks, each a `cidr` with its `except`, together cover the internet. Raises
    FieldError.
    """
    parts: list[Network] = []
    for each in blocks:
        holes = [block_of(hole) for hole in each.at("except").each()]
        parts += without([block_of(each.at("cidr"))], holes)
    return is_internet(parts)


def block_of(field: Field) -> Network:
    try:
        return network(field.text())
    except ValueError:
        raise MalformedFieldError(field, "a CIDR block") from None


def _is_every_pod(peer: Field) -> bool:
    if not peer.at("ipBlock").absent:
        return False
    if peer.at("namespaceSelector").absent:
        # Pods of the policy's namespace; without labels, all of them.
        return not peer.at("podSelector").absent and not is_narrow(peer.at("podSelector"))
    return not is_narrow(peer.at("namespaceSelector")) and not is_narrow(peer.at("podSelector"))


def isolates(policy: Resource, side: str, *, some: bool = False) -> bool:
    """True if a policy denies that side by default for all pods of its namespace, or for `some` of
    them. Raises FieldError.
    """
    pods = policy.at("spec", "podSelector")
    if side not in sides_of(policy) or (
        not some and (pods.at("matchLabels").value or pods.at("matchExpressions").value)
    ):
        return False
    peers_at, rules = (
        ("from", policy.at("spec", "ingress"))
        if side == "Ingress"
        else ("to", policy.at("spec", "egress"))
    )
    for rule in rules.each():
        peers = list(rule.at(peers_at).each())
        if cover_internet(blocks_of(peers)):
            return False
        # A rule for egress may have ports without peers, because the addresses of name servers are
        # not known.
        if not peers and (side == "Ingress" or not rule.at("ports").has_items):
            return False
    return True


def is_narrow(selector: Field) -> bool:
    """True if a label selector names what it selects. Exists, NotIn and DoesNotExist exclude almost
    nothing.
    """
    expressions = (
        each.at("operator").text() == "In" for each in selector.at("matchExpressions").each()
    )
    return bool(selector.at("matchLabels").value) or any(expressions)


def excludes(selector: Field) -> bool:
    """True if a label selector only says what it does not select, or names a label that every pod
    has.
    """
    terms = (
        f"{each.at('operator').text()} {each.at('key').text()}"
        for each in selector.at("matchExpressions").each()
    )
    return not is_narrow(selector) and any(map(_EXCLUDES.match, terms))
