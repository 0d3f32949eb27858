"""Parts of NetworkPolicies: peers, ports, and the egress to hosts and stores, as narrow as networks
can express it.
"""

from collections.abc import Iterable, Mapping, Sequence

from inferplan.components.fields import present
from inferplan.components.hosts import (
    ANYWHERE,
    METADATA_ADDRESS,
    namespace_of,
    networks_of,
    peers_are_known,
)
from inferplan.components.kubernetes import meta, networking
from inferplan.components.sources import ModelSource

# The agent that gives EKS Pod Identity credentials to the pods of its node.
POD_IDENTITY_AGENT = "169.254.170.23/32"
_HTTPS = 443
API_PORTS = (443, 6443)
"""Ports at which clusters have the Kubernetes API, whose address is the cluster's own."""
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def pods(labels: Mapping[str, str]) -> networking.NetworkPolicyPeerArgsDict:
    """Return a peer for the pods of the same namespace with `labels`."""
    return networking.NetworkPolicyPeerArgsDict(
        pod_selector=meta.LabelSelectorArgsDict(match_labels=dict(labels))
    )


def outside() -> networking.NetworkPolicyPeerArgsDict:
    """Return a peer for every IPv4 address except the instance metadata service: for servers whose
    addresses are not known.
    """
    return networking.NetworkPolicyPeerArgsDict(
        ip_block=networking.IPBlockArgsDict(cidr=ANYWHERE, except_=[METADATA_ADDRESS])
    )


def tcp(*ports: int) -> list[networking.NetworkPolicyPortArgsDict]:
    return [networking.NetworkPolicyPortArgsDict(port=port, protocol="TCP") for port in ports]


def policy(
    labels: Mapping[str, str],
    *,
    ingress: Sequence[networking.NetworkPolicyIngressRuleArgsDict] = (),
    egress: Sequence[networking.NetworkPolicyEgressRuleArgsDict] = (),
) -> networking.NetworkPolicySpecArgsDict:
    """Return a policy that allows `ingress` and `egress` of the pods with `labels`; a direction
    without rules is unchanged.
    """
    directions = [name for name, rules in (("Ingress", ingress), ("Egress", egress)) if rules]
    return present(
        networking.NetworkPolicySpecArgsDict(
            pod_selector=meta.LabelSelectorArgsDict(match_labels=dict(labels)),
            policy_types=directions,
            ingress=list(ingress) or None,
            egress=list(egress) or None,
        )
    )


def peers(host: str, networks: Sequence[str] = ()) -> list[networking.NetworkPolicyPeerArgsDict]:
    """The peers that hold `host`: its `networks`, its own address, the namespace of its Service, or
    any address.
    """
    if blocks := networks or networks_of(host):
        return [
            outside()
            if block == ANYWHERE
            else networking.NetworkPolicyPeerArgsDict(
                ip_block=networking.IPBlockArgsDict(cidr=block)
            )
            for block in blocks
        ]
    namespace = namespace_of(host)
    if namespace is None:
        return [outside()]
    if not namespace:
        return [networking.NetworkPolicyPeerArgsDict(pod_selector=meta.LabelSelectorArgsDict())]
    return [
        networking.NetworkPolicyPeerArgsDict(
            namespace_selector=meta.LabelSelectorArgsDict(
                match_labels={_NAMESPACE_LABEL: namespace}
            )
        )
    ]


def server_edges(
    servers: Iterable[tuple[str, Sequence[str], Sequence[int]]],
) -> list[networking.NetworkPolicyEgressRuleArgsDict]:
    """The egress to `servers`, each a host, its networks and its ports."""
    return [
        networking.NetworkPolicyEgressRuleArgsDict(to=peers(host, networks), ports=tcp(*ports))
        for host, networks, ports in servers
    ]


def host_of(source: ModelSource) -> str:
    """The host of the servers of `source`, "" if pods call none."""
    return "" if source.url is None else source.url.hostname or ""


def limited(source: ModelSource) -> bool:
    """True if a NetworkPolicy can limit the readers of `source` to its servers."""
    return peers_are_known(host_of(source), source.networks)


def needs_sts(source: ModelSource) -> bool:
    """True if the readers of `source` may get their AWS credentials from STS: with IRSA, or an
    identity that this stack does not manage.
    """
    return source.uses_cloud_identity and (
        source.identity is None or bool(source.identity.annotations)
    )


def store_edges(source: ModelSource) -> list[networking.NetworkPolicyEgressRuleArgsDict]:
    """The egress of a reader of `source`: its servers, and the services that give it AWS
    credentials.
    """
    edge = networking.NetworkPolicyEgressRuleArgsDict
    rules = [edge(to=peers(host_of(source), source.networks), ports=tcp(*source.ports))]
    if needs_sts(source) and (limited(source) or _HTTPS not in source.ports):
        rules.append(edge(to=[outside()], ports=tcp(_HTTPS)))
    if source.uses_cloud_identity:
        agent = networking.NetworkPolicyPeerArgsDict(
            ip_block=networking.IPBlockArgsDict(cidr=POD_IDENTITY_AGENT)
        )
        rules.append(edge(to=[agent], ports=tcp(80)))
    return rules
