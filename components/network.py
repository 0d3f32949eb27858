"""NetworkPolicy pieces: the peers and ports by which components declare the traffic they need.

The namespace denies all traffic; each policy opens one edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking

# The instance metadata service: anyone who reaches it has the node's identity.
METADATA_ADDRESS = "169.254.169.254/32"


def pods(labels: Mapping[str, str]) -> networking.NetworkPolicyPeerArgs:
    """The pods of the same namespace that carry `labels`."""
    return networking.NetworkPolicyPeerArgs(pod_selector=meta.LabelSelectorArgs(match_labels=dict(labels)))


def outside() -> networking.NetworkPolicyPeerArgs:
    """Every IPv4 address except the instance metadata service: for servers whose addresses are not known."""
    return networking.NetworkPolicyPeerArgs(ip_block=networking.IPBlockArgs(cidr="0.0.0.0/0", except_=[METADATA_ADDRESS]))


def tcp(*ports: int) -> list[networking.NetworkPolicyPortArgs]:
    """TCP ports of a rule."""
    return [networking.NetworkPolicyPortArgs(port=port, protocol="TCP") for port in ports]


def policy(
    labels: Mapping[str, str],
    *,
    ingress: Sequence[networking.NetworkPolicyIngressRuleArgs] = (),
    egress: Sequence[networking.NetworkPolicyEgressRuleArgs] = (),
) -> networking.NetworkPolicySpecArgs:
    """Opens `ingress` and `egress` for the pods that carry `labels`; a direction without rules stays as the namespace has it."""
    directions = [name for name, rules in (("Ingress", ingress), ("Egress", egress)) if rules]
    return networking.NetworkPolicySpecArgs(
        pod_selector=meta.LabelSelectorArgs(match_labels=dict(labels)),
        policy_types=directions,
        ingress=list(ingress) or None,
        egress=list(egress) or None,
    )
