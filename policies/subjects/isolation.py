"""NetworkPolicies: what they isolate, and whom they let through. It knows no network that is not written down."""

from __future__ import annotations

from policies.engine.fields import Field
from policies.engine.resource import Resource

NETWORK_POLICY = "kubernetes:networking.k8s.io:NetworkPolicy"
_EVERYWHERE = ("0.0.0.0/0", "::/0")


def sides_of(policy: Resource) -> set[str]:
    """`Ingress`, `Egress` or both: which traffic of its pods a policy isolates, as Kubernetes takes it where nothing is said. Raises FieldError."""
    given = set(policy.at("spec", "policyTypes").texts())
    if given:
        return given
    return {"Ingress", "Egress"} if any(True for _ in policy.at("spec", "egress").each()) else {"Ingress"}


def is_everybody(peer: Field) -> bool:
    """Whether a peer is every address, or every pod of the cluster. Raises FieldError."""
    if peer.at("ipBlock", "cidr").text() in _EVERYWHERE:
        return True
    if peer.at("namespaceSelector").absent:
        # Pods of the policy's own namespace; without labels, all of them.
        return not peer.at("podSelector").absent and not _names(peer.at("podSelector"))
    return not _names(peer.at("namespaceSelector")) and not _names(peer.at("podSelector"))


def isolates(policy: Resource, side: str) -> bool:
    """Whether a policy denies that side of all pods of its namespace but for what it names. Raises FieldError."""
    if side not in sides_of(policy) or _names(policy.at("spec", "podSelector")):
        return False
    peers_at, rules = ("from", policy.at("spec", "ingress")) if side == "Ingress" else ("to", policy.at("spec", "egress"))
    for rule in rules.each():
        peers = list(rule.at(peers_at).each())
        if any(peer.at("ipBlock", "cidr").text() in _EVERYWHERE for peer in peers):
            return False
        # Name servers are wherever they are, so a port alone may go out; what comes in must come from somebody.
        if not peers and (side == "Ingress" or not any(True for _ in rule.at("ports").each())):
            return False
    return True


def _names(selector: Field) -> bool:
    return bool(selector.at("matchLabels").value or selector.at("matchExpressions").value)
