"""NetworkPolicies: what they isolate, and whom they let through. It knows no network that is not written down."""

from __future__ import annotations

from collections.abc import Iterable

from policies.addresses import Network, network, without
from policies.addresses import is_everybody as covers_everybody
from policies.engine.fields import Field, MalformedFieldError
from policies.engine.resource import Resource

NETWORK_POLICY = "kubernetes:networking.k8s.io:NetworkPolicy"


def sides_of(policy: Resource) -> set[str]:
    """`Ingress`, `Egress` or both: which traffic of its pods a policy isolates, as Kubernetes takes it where nothing is said. Raises FieldError."""
    given = set(policy.at("spec", "policyTypes").texts())
    if given:
        return given
    return {"Ingress", "Egress"} if any(True for _ in policy.at("spec", "egress").each()) else {"Ingress"}


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
    return covers_everybody(parts)


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
        if not peers and (side == "Ingress" or not any(True for _ in rule.at("ports").each())):
            return False
    return True


def names(selector: Field) -> bool:
    """True if a selector of labels leaves something out: that a label is there, or is not one value, leaves out next to nothing."""
    listed = (each.at("operator").text() in ("In", "DoesNotExist") for each in selector.at("matchExpressions").each())
    return bool(selector.at("matchLabels").value) or any(listed)
