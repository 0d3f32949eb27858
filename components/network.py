"""NetworkPolicy pieces: the peers and ports by which components declare the traffic they need.

The namespace denies everything; a policy here opens one edge and nothing beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking

if TYPE_CHECKING:
    from components.handles import ObjectStore

# The agent that hands EKS Pod Identity credentials to the pods of its node.
_POD_IDENTITY_AGENT = "169.254.170.23/32"
_HTTPS = 443
# The instance metadata service: whoever reaches it holds the node's identity.
METADATA_ADDRESS = "169.254.169.254/32"


def pods(labels: Mapping[str, str]) -> networking.NetworkPolicyPeerArgs:
    """The pods of the same namespace that carry `labels`."""
    return networking.NetworkPolicyPeerArgs(pod_selector=meta.LabelSelectorArgs(match_labels=dict(labels)))


def outside() -> networking.NetworkPolicyPeerArgs:
    """Every address but the instance metadata service: for stores whose addresses are not known beforehand."""
    return networking.NetworkPolicyPeerArgs(ip_block=networking.IPBlockArgs(cidr="0.0.0.0/0", except_=[METADATA_ADDRESS]))


def tcp(*ports: int) -> list[networking.NetworkPolicyPortArgs]:
    """TCP ports of a rule."""
    return [networking.NetworkPolicyPortArgs(port=port, protocol="TCP") for port in ports]


def bucket_edges(store: ObjectStore) -> list[networking.NetworkPolicyEgressRuleArgs]:
    """What a reader of `store` has to reach: the S3 API, and without a Secret also where its role's credentials come from."""
    rules = [
        networking.NetworkPolicyEgressRuleArgs(
            to=[outside()], ports=tcp(*sorted({store.port, _HTTPS} if store.credentials is None else {store.port}))
        )
    ]
    if store.credentials is None:
        agent = networking.NetworkPolicyPeerArgs(ip_block=networking.IPBlockArgs(cidr=_POD_IDENTITY_AGENT))
        rules.append(networking.NetworkPolicyEgressRuleArgs(to=[agent], ports=tcp(80)))
    return rules


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
