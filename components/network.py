"""Parts of NetworkPolicies: the peers and ports that components use to declare their traffic.

The namespace denies all traffic; each policy opens one edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking

from components.fields import present

# The instance metadata service: anyone who reaches it has the node's identity.
METADATA_ADDRESS = "169.254.169.254/32"


def pods(labels: Mapping[str, str]) -> networking.NetworkPolicyPeerArgsDict:
    """Return a peer for the pods of the same namespace with `labels`."""
    return networking.NetworkPolicyPeerArgsDict(pod_selector=meta.LabelSelectorArgsDict(match_labels=dict(labels)))


def outside() -> networking.NetworkPolicyPeerArgsDict:
    """Return a peer for every IPv4 address except the instance metadata service: for servers whose addresses are not known."""
    return networking.NetworkPolicyPeerArgsDict(ip_block=networking.IPBlockArgsDict(cidr="0.0.0.0/0", except_=[METADATA_ADDRESS]))


def tcp(*ports: int) -> list[networking.NetworkPolicyPortArgsDict]:
    """Return TCP ports of a rule."""
    return [networking.NetworkPolicyPortArgsDict(port=port, protocol="TCP") for port in ports]


def policy(
    labels: Mapping[str, str],
    *,
    ingress: Sequence[networking.NetworkPolicyIngressRuleArgsDict] = (),
    egress: Sequence[networking.NetworkPolicyEgressRuleArgsDict] = (),
) -> networking.NetworkPolicySpecArgsDict:
    """Return a policy that allows `ingress` and `egress` of the pods with `labels`; a direction without rules is unchanged."""
    directions = [name for name, rules in (("Ingress", ingress), ("Egress", egress)) if rules]
    return present(
        networking.NetworkPolicySpecArgsDict(
            pod_selector=meta.LabelSelectorArgsDict(match_labels=dict(labels)),
            policy_types=directions,
            ingress=list(ingress) or None,
            egress=list(egress) or None,
        )
    )
