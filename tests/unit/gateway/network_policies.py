"""Who may reach whom under a set of NetworkPolicies, as Kubernetes defines it
(networking.k8s.io/v1, read 2026-11).

A pod that no policy selects for a direction is open in that direction; policies add up; an edge
needs the sender's egress and the receiver's ingress. Only what our policies use is understood, and
anything else is refused rather than guessed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_PEER_KEYS = {"podSelector", "namespaceSelector", "ipBlock"}


@dataclass(frozen=True)
class NetworkEndpoint:
    """A pod (labels, and its namespace's labels), or an address outside when `address` is given."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = ""

    @property
    def namespace_labels(self) -> dict[str, str]:
        return {"kubernetes.io/metadata.name": self.namespace}


def reaches(
    source: NetworkEndpoint,
    target: NetworkEndpoint,
    port: int,
    policies: Iterable[Mapping[str, Any]],
    protocol: str = "TCP",
) -> bool:
    """Whether a packet of `source` may arrive at `port` of `target`."""
    every = list(policies)
    return _open(source, target, (port, protocol), every, "Egress") and _open(
        target, source, (port, protocol), every, "Ingress"
    )


def _open(
    owner: NetworkEndpoint,
    peer: NetworkEndpoint,
    port: tuple[int, str],
    policies: list[Mapping[str, Any]],
    direction: str,
) -> bool:
    if owner.address:
        return True
    selecting = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == owner.namespace
        and direction in policy["spec"]["policyTypes"]
        and _selects(policy["spec"].get("podSelector", {}), owner.labels)
    ]
    if not selecting:
        return True
    rules = [rule for spec in selecting for rule in spec.get(direction.lower()) or []]
    side = "to" if direction == "Egress" else "from"
    return any(
        _port_matches(rule, port) and _peer_matches(rule.get(side), owner, peer) for rule in rules
    )


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if set(selector) - {"matchLabels"}:
        raise NotImplementedError(f"selector {selector}")
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def _port_matches(rule: Mapping[str, Any], port: tuple[int, str]) -> bool:
    listed = rule.get("ports")
    number, protocol = port
    return not listed or any(
        each.get("protocol", "TCP") == protocol
        and each["port"] <= number <= each.get("endPort", each["port"])
        for each in listed
    )


def _peer_matches(
    peers: list[Mapping[str, Any]] | None, owner: NetworkEndpoint, other: NetworkEndpoint
) -> bool:
    return not peers or any(_is(peer, owner, other) for peer in peers)


def _is(peer: Mapping[str, Any], owner: NetworkEndpoint, other: NetworkEndpoint) -> bool:
    if set(peer) - _PEER_KEYS:
        raise NotImplementedError(f"peer {peer}")
    if "ipBlock" in peer:
        if not other.address:
            return False
        address = ipaddress.ip_address(other.address)
        block = peer["ipBlock"]
        inside = address in ipaddress.ip_network(block["cidr"])
        return inside and not any(
            address in ipaddress.ip_network(each) for each in block.get("except", [])
        )
    if other.address:
        return False
    if "namespaceSelector" in peer:
        if not _selects(peer["namespaceSelector"], other.namespace_labels):
            return False
    elif other.namespace != owner.namespace:
        return False
    return _selects(peer.get("podSelector", {}), other.labels)
