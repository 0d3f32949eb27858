"""The nodes of a stack on EKS: managed node groups, and the pools of EKS Auto Mode with what these
need inside the cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes import Provider

from inferplan.components.gateway.exposure_spec import IngressAccess
from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import core, meta, networking
from inferplan.components.naming import labels
from inferplan.components.platforms.aws.access import access_entry, kubeconfig
from inferplan.components.platforms.aws.auto_pool import AutoNodePool
from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.load_balancers import AUTO_MODE
from inferplan.components.platforms.aws.node_pool import (
    AUTO_MODE_POLICIES,
    CNI_POLICY,
    GROUP_POLICIES,
    EksNodePool,
    NodeIdentity,
)
from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.components.platforms.platform import Sections
from inferplan.components.storage.volume_spec import NodeDiskStoreSpec


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The created pools: their handles, the security groups of their nodes, and what must exist
    before pods can start.

    `plain` is the part of `ready` for pools without accelerators and taints, on which the cluster's
    add-ons run.
    """

    targets: Mapping[str, NodeTarget]
    groups: tuple[pulumi.Output[str], ...]
    ready: tuple[pulumi.Resource, ...]
    plain: tuple[pulumi.Resource, ...]


def declare_nodes(
    pools: Mapping[str, EksPool],
    sections: Sections,
    cluster: EksClusterFields,
    home: EksClusterHandle,
    access: tuple[pulumi.Resource, ...],
    provider: pulumi.ProviderResource,
) -> Nodes:
    """Declare the nodes of `pools`. `access` are the access entries without which nothing inside
    the cluster can be declared.
    """
    created: dict[str, EksNodePool | AutoNodePool] = {}
    groups: list[pulumi.Output[str]] = []
    settings: tuple[pulumi.Resource, ...] = ()
    options = pulumi.ResourceOptions(provider=provider)
    grouped = {name: pool for name, pool in pools.items() if not pool.is_auto_mode}
    if grouped:
        adopts_cni = cluster.create is None and cluster.cni_uses_node_role
        policies = (*GROUP_POLICIES, CNI_POLICY) if adopts_cni else GROUP_POLICIES
        identity = NodeIdentity("nodes", home=home, policies=policies, opts=options)
        groups.append(identity.group)
        for name, pool in grouped.items():
            created[name] = EksNodePool(
                name,
                pool,
                home=home,
                identity=identity,
                created=cluster.create is not None,
                images=_images(name, sections),
                directories=[
                    each.path
                    for each in sections.storage.values()
                    if isinstance(each, NodeDiskStoreSpec) and each.pool == name
                ],
                opts=options,
            )
    automatic = {name: pool for name, pool in pools.items() if pool.is_auto_mode}
    if automatic:
        identity = NodeIdentity("auto-nodes", home=home, policies=AUTO_MODE_POLICIES, opts=options)
        groups.append(identity.group)
        inside = _provider_before_nodes(home, identity, access)
        both = pulumi.ResourceOptions(provider=inside)
        for name, pool in automatic.items():
            created[name] = AutoNodePool(
                name, pool, home=home, identity=identity, images=_images(name, sections), opts=both
            )
        if cluster.create is not None:
            settings = AutoModeSettings(
                "auto-mode-settings", cluster, sections, node_groups=bool(grouped), opts=both
            ).ready
    plain = [
        name
        for name, pool in pools.items()
        if pool.accelerator is None and not created[name].target.taints
    ]
    return Nodes(
        targets={name: created[name].target for name in pools},
        groups=tuple(groups),
        ready=(*(each for name in pools for each in created[name].ready), *settings),
        plain=tuple(each for name in plain for each in created[name].ready),
    )


def _provider_before_nodes(
    home: EksClusterHandle, identity: NodeIdentity, access: tuple[pulumi.Resource, ...]
) -> Provider:
    """A separate provider: the stack's waits for the nodes, so that a destroy removes them after
    everything that runs on them.
    """
    # Nodes join through NodeClasses of this stack (EKS user guide, "Create node class access
    # entry", read 2026-11).
    entry = access_entry(
        "auto-nodes",
        home.name,
        identity.arn,
        "AmazonEKSAutoNodePolicy",
        kind="EC2",
        opts=pulumi.ResourceOptions(parent=identity),
    )
    return Provider(
        "auto-mode",
        enable_server_side_apply=True,
        kubeconfig=kubeconfig(home),
        opts=pulumi.ResourceOptions(depends_on=[*access, entry, *home.before_nodes]),
    )


class AutoModeSettings(pulumi.ComponentResource):
    """The objects with which a created cluster uses EKS Auto Mode: enforcement of NetworkPolicies,
    and the class of the gateway's Ingress.
    """

    def __init__(
        self,
        name: str,
        cluster: EksClusterFields,
        sections: Sections,
        *,
        node_groups: bool,
        opts: pulumi.ResourceOptions,
    ) -> None:
        access = None if sections.gateway is None else sections.gateway.access
        ingress_class = None
        if (
            cluster.balances_in_auto_mode
            and isinstance(access, IngressAccess)
            and access.alb is not None
        ):
            ingress_class = access.ingress_class
        super().__init__(
            "inferplan:cluster:AutoModeSettings",
            name,
            {"spec": {"ingressClass": ingress_class}},
            opts,
        )
        ready: list[pulumi.Resource] = []
        metadata: meta.ObjectMetaArgsDict = {"labels": labels("cluster", name)}
        if ingress_class is not None:
            # The Ingress has the settings of its load balancer as annotations, so the class needs
            # no IngressClassParams.
            spec: networking.IngressClassSpecArgsDict = {"controller": AUTO_MODE.ingress_controller}
            child = pulumi.ResourceOptions(parent=self)
            ready.append(
                networking.IngressClass(
                    "alb", metadata={**metadata, "name": ingress_class}, spec=spec, opts=child
                )
            )
        if not node_groups:
            # EKS user guide, "Use Network Policies with EKS Auto Mode", read 2026-11. With node
            # groups the VPC CNI add-on owns this object, so it is kept when this stack stops
            # declaring it.
            kept = pulumi.ResourceOptions(parent=self, retain_on_delete=True)
            metadata = {**metadata, "name": "amazon-vpc-cni", "namespace": "kube-system"}
            ready.append(
                core.ConfigMap(
                    "network-policies",
                    metadata=metadata,
                    data={"enable-network-policy-controller": "true"},
                    opts=kept,
                )
            )
        self.ready: tuple[pulumi.Resource, ...] = tuple(ready)
        self.register_outputs({})


def _images(pool: str, sections: Sections) -> int:
    return max(
        1,
        len(
            {
                (model.engine, model.image)
                for model in sections.models.values()
                if model.pool == pool
            }
        ),
    )
