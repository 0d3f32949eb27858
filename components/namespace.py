"""The namespace that inference runs in: restricted pods, no traffic that is not declared, no more accelerators than the pools hold.

It opens no edge itself: each component allows the traffic that it needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking

from components.handles import GatewayRequirements, NodeTarget
from components.naming import labels

# The profile of the API server that the rehearsal runs; raising it is a reviewed change, `latest` would move under us.
POD_SECURITY_VERSION = "v1.34"
BUDGET_ANNOTATION = "inferplan.dev/monthly-budget-usd"
"""What the stack may cost a month at most, in US dollars."""
_MODES = ("enforce", "audit", "warn")


class InferenceNamespace(pulumi.ComponentResource):
    """A namespace under the restricted Pod Security profile, default-deny both ways, with a quota of the pools' accelerators.

    Its type carries its name, so that the URN of everything that has it for a parent carries it too: an object of another
    namespace is another resource. Under one URN the move would be a replacement, and a move that is reverted halfway would
    find its own objects in the way, since those wait for deletion at the end of an update that never came.
    """

    name: str
    ready: pulumi.Resource
    """The Namespace object itself, to depend on."""

    def __init__(
        self,
        name: str,
        *,
        targets: Iterable[NodeTarget],
        monthly_usd: int | None = None,
        gateway: GatewayRequirements | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        gateway = gateway or GatewayRequirements()
        quota = accelerator_quota(targets, load_balancers=gateway.load_balancers)
        super().__init__(f"inferplan:namespace:{name}", name, {"spec": {"name": name, "quota": quota}}, opts)
        child = pulumi.ResourceOptions(parent=self)
        # The budget stands on an object, so that a policy sees it, and so does whoever asks the cluster.
        budget = None if monthly_usd is None else {BUDGET_ANNOTATION: str(monthly_usd)}
        about = meta.ObjectMetaArgs(name=name, labels={**_namespace_labels(name), **gateway.labels}, annotations=budget)
        namespace = core.Namespace(name, metadata=about, opts=child)
        # The name comes from the created object, so that everything inside waits for the namespace.
        inside = namespace.metadata.name
        networking.NetworkPolicy(
            f"{name}-default-deny",
            metadata=meta.ObjectMetaArgs(name="default-deny", namespace=inside, labels=labels("namespace", name)),
            spec=networking.NetworkPolicySpecArgs(
                pod_selector=meta.LabelSelectorArgs(),
                policy_types=["Ingress", "Egress"],
            ),
            opts=child,
        )
        networking.NetworkPolicy(
            f"{name}-allow-dns",
            metadata=meta.ObjectMetaArgs(name="allow-dns", namespace=inside, labels=labels("namespace", name)),
            spec=_dns_egress(),
            opts=child,
        )
        core.ResourceQuota(
            f"{name}-quota",
            metadata=meta.ObjectMetaArgs(name="accelerators", namespace=inside, labels=labels("namespace", name)),
            spec=core.ResourceQuotaSpecArgs(hard=quota),
            opts=child,
        )
        self.name = name
        self.inside: pulumi.Output[str] = inside
        self.ready = namespace
        self.register_outputs({"name": inside})


def accelerator_quota(targets: Iterable[NodeTarget], *, load_balancers: int = 0) -> dict[str, str]:
    """Hard limits of the namespace: the cards of all pools by resource key, and no Service that opens a port but the gateway's own."""
    cards: Counter[str] = Counter()
    for target in targets:
        if target.accelerator is not None:
            cards[f"requests.{target.accelerator.resource}"] += target.nodes * target.capacity.accelerators
    closed = {"services.loadbalancers": str(load_balancers), "services.nodeports": "0"}
    return {**{key: str(count) for key, count in sorted(cards.items())}, **closed}


def _namespace_labels(name: str) -> dict[str, str]:
    profile = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in _MODES}
    versions = {f"pod-security.kubernetes.io/{mode}-version": POD_SECURITY_VERSION for mode in _MODES}
    return {**labels("namespace", name), **profile, **versions}


def _dns_egress() -> networking.NetworkPolicySpecArgs:
    cluster_dns = networking.NetworkPolicyPeerArgs(
        namespace_selector=meta.LabelSelectorArgs(match_labels={"kubernetes.io/metadata.name": "kube-system"}),
        pod_selector=meta.LabelSelectorArgs(match_labels={"k8s-app": "kube-dns"}),
    )
    ports = [networking.NetworkPolicyPortArgs(port=53, protocol=protocol) for protocol in ("UDP", "TCP")]
    return networking.NetworkPolicySpecArgs(
        pod_selector=meta.LabelSelectorArgs(),
        policy_types=["Egress"],
        egress=[networking.NetworkPolicyEgressRuleArgs(to=[cluster_dns], ports=ports)],
    )
