"""The stack's namespace: restricted pods, default-deny network policies, and a quota of the pools'
accelerators.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pulumi

from inferplan.components.fields import present
from inferplan.components.handles import GatewayRequirements, NodeTarget
from inferplan.components.kubernetes import core, meta, networking
from inferplan.components.naming import POD_COMPONENTS, labels
from inferplan.hardware.accelerators import Accelerator
from inferplan.kube.names import COMPONENT_LABEL, MONTHLY_BUDGET

# The profile version of the rehearsal's API server. Raising it is a reviewed change; `latest` would
# change without one.
POD_SECURITY_VERSION = "v1.34"
"""Maximum monthly cost of the stack, in US dollars."""
_MODES = ("enforce", "audit", "warn")


class InferenceNamespace(pulumi.ComponentResource):
    """A namespace with the restricted Pod Security profile, default-deny in both directions, and a
    quota of the pools' accelerators.

    Its type token contains its name, and so do the URNs of its children: an object in another
    namespace is another resource. An `adopted` namespace exists already and may have objects of
    others: it is not declared, has no quota, and the policies select the stack's pods alone. The
    labels that it should have are an input of the component.

    With one URN for both, moving a stack would be a replacement, and reverting it halfway would
    fail because the old objects still exist: they are deleted at the end of an update that did not
    finish.
    """

    name: str

    def __init__(
        self,
        name: str,
        *,
        targets: Iterable[NodeTarget],
        monthly_usd: int | None = None,
        gateway: GatewayRequirements | None = None,
        adopted: bool = False,
        dns_addresses: Sequence[pulumi.Input[str]] = (),
        after: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        gateway = gateway or GatewayRequirements()
        quota = accelerator_quota(targets, load_balancers=gateway.load_balancers)
        needs = {**_pod_security(), **gateway.labels}
        spec = (
            {"name": name, "adopted": True, "labels": needs}
            if adopted
            else {"name": name, "quota": quota}
        )
        super().__init__(f"inferplan:namespace:{name}", name, {"spec": spec}, opts)
        child = pulumi.ResourceOptions(parent=self)
        # The budget is an annotation, so that policies and users of the cluster can read it.
        budget = None if monthly_usd is None else {MONTHLY_BUDGET: str(monthly_usd)}
        if adopted:
            live_name = pulumi.Output.all(*(each.urn for each in after)).apply(lambda _: name)
        else:
            live_name = self._create(name, needs, budget, after)
        pods = _own_pods() if adopted else meta.LabelSelectorArgsDict()
        denial = meta.ObjectMetaArgsDict(
            name="default-deny",
            namespace=live_name,
            labels=labels("namespace", name),
            annotations=budget if adopted else None,
        )
        networking.NetworkPolicy(
            f"{name}-default-deny",
            metadata=present(denial),
            spec=networking.NetworkPolicySpecArgsDict(
                pod_selector=pods,
                policy_types=["Ingress", "Egress"],
            ),
            opts=child,
        )
        networking.NetworkPolicy(
            f"{name}-allow-dns",
            metadata=meta.ObjectMetaArgsDict(
                name="allow-dns", namespace=live_name, labels=labels("namespace", name)
            ),
            spec=_dns_egress(pods, dns_addresses),
            opts=child,
        )
        # A quota would count the pods and Services of others too.
        if not adopted:
            core.ResourceQuota(
                f"{name}-quota",
                metadata=meta.ObjectMetaArgsDict(
                    name="accelerators", namespace=live_name, labels=labels("namespace", name)
                ),
                spec=core.ResourceQuotaSpecArgsDict(hard=quota),
                opts=child,
            )
        self.name = name
        self.live_name: pulumi.Output[str] = live_name
        self.register_outputs({"name": live_name})

    def _create(
        self,
        name: str,
        needs: Mapping[str, str],
        budget: Mapping[str, str] | None,
        after: Sequence[pulumi.Resource],
    ) -> pulumi.Output[str]:
        """The name of the created object, so that everything in the namespace waits for it."""
        metadata = present(
            meta.ObjectMetaArgsDict(
                name=name, labels={**labels("namespace", name), **needs}, annotations=budget
            )
        )
        # Controllers clean up after its objects, so they are deleted after it. Pulumi never deletes
        # the namespace, because others may have claims and other objects in it: inferplan deletes
        # it when it is empty.
        options = pulumi.ResourceOptions(parent=self, depends_on=list(after), retain_on_delete=True)
        return core.Namespace(name, metadata=metadata, opts=options).metadata["name"]


def accelerator_quota(targets: Iterable[NodeTarget], *, load_balancers: int = 0) -> dict[str, str]:
    """Return the hard limits of the namespace: accelerators of all pools by resource, and no
    exposed Service except the gateway's.
    """
    accelerators: Counter[str] = Counter()
    for target in targets:
        if target.accelerator is not None:
            # Pods that share a device have one claim for it.
            sharers = target.accelerator.sharers if target.accelerator.device_class else 1
            accelerators[_quota_name(target.accelerator)] += (
                target.nodes * target.capacity.accelerators // sharers
            )
    services = {"services.loadbalancers": str(load_balancers), "services.nodeports": "0"}
    return {**{key: str(count) for key, count in sorted(accelerators.items())}, **services}


def _quota_name(accelerator: Accelerator) -> str:
    """The name by which a ResourceQuota limits `accelerator`."""
    if accelerator.device_class is not None:
        return f"{accelerator.device_class}.deviceclass.resource.k8s.io/devices"
    return f"requests.{accelerator.resource}"


def _pod_security() -> dict[str, str]:
    profile = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in _MODES}
    versions = {
        f"pod-security.kubernetes.io/{mode}-version": POD_SECURITY_VERSION for mode in _MODES
    }
    return {**profile, **versions}


def _own_pods() -> meta.LabelSelectorArgsDict:
    """Select the pods of a stack in a namespace that has pods of others too."""
    expression = meta.LabelSelectorRequirementArgsDict(
        key=COMPONENT_LABEL, operator="In", values=list(POD_COMPONENTS)
    )
    return meta.LabelSelectorArgsDict(match_expressions=[expression])


def _dns_egress(
    pods: meta.LabelSelectorArgsDict, addresses: Sequence[pulumi.Input[str]]
) -> networking.NetworkPolicySpecArgsDict:
    cluster_dns = networking.NetworkPolicyPeerArgsDict(
        namespace_selector=meta.LabelSelectorArgsDict(
            match_labels={"kubernetes.io/metadata.name": "kube-system"}
        ),
        pod_selector=meta.LabelSelectorArgsDict(match_labels={"k8s-app": "kube-dns"}),
    )
    servers = [
        networking.NetworkPolicyPeerArgsDict(ip_block=networking.IPBlockArgsDict(cidr=each))
        for each in addresses
    ]
    ports = [
        networking.NetworkPolicyPortArgsDict(port=53, protocol=protocol)
        for protocol in ("UDP", "TCP")
    ]
    return networking.NetworkPolicySpecArgsDict(
        pod_selector=pods,
        policy_types=["Egress"],
        egress=[
            networking.NetworkPolicyEgressRuleArgsDict(to=[cluster_dns, *servers], ports=ports)
        ],
    )
