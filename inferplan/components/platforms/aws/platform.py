"""The AWS resources of a stack: cluster, nodes, stores, and the roles of their readers. Only a
stack on EKS imports this module.
"""

from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_aws as aws

from inferplan.components.platforms.aws.access import kubeconfig
from inferplan.components.platforms.aws.addons import ClusterAddons
from inferplan.components.platforms.aws.cluster import CreatedCluster, adopted_cluster
from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.cluster_handle import (
    CONTROLLERS_NAMESPACE,
    EksClusterHandle,
)
from inferplan.components.platforms.aws.efs import EfsStore
from inferplan.components.platforms.aws.load_balancers import AUTO_MODE, CONTROLLER
from inferplan.components.platforms.aws.lustre import FsxStore
from inferplan.components.platforms.aws.lustre_spec import FsxStoreSpec
from inferplan.components.platforms.aws.nodes import declare_nodes
from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.components.platforms.aws.prerequisites.preview import warn_about_prerequisites
from inferplan.components.platforms.aws.s3 import AwsS3Store
from inferplan.components.platforms.aws.store_spec import EfsStoreSpec
from inferplan.components.platforms.platform import Platform, Sections, StoreSite
from inferplan.components.storage.fields import Store
from inferplan.components.storage.model_store import ModelStore, SharedStore
from inferplan.components.stores import S3StoreSpec


@dataclass(frozen=True, kw_only=True)
class AwsPlatform(Platform):
    """The AWS resources of a stack. `nodes` are the security groups of the nodes of the stack's
    pools.
    """

    spec: EksClusterFields
    home: EksClusterHandle
    provider: pulumi.ProviderResource
    nodes: tuple[pulumi.Output[str], ...]

    def store(self, name: str, spec: Store, site: StoreSite) -> ModelStore:
        options = pulumi.ResourceOptions(provider=self.provider)
        if isinstance(spec, S3StoreSpec):
            return AwsS3Store(
                name,
                spec,
                home=self.home,
                method=self.spec.identity,
                namespace=site.scope,
                opts=options,
            )
        is_file_system = isinstance(spec, EfsStoreSpec | FsxStoreSpec)
        if not is_file_system or spec.volume() is not None:
            return super().store(name, spec, site)
        kubernetes = [] if site.opts.provider is None else [site.opts.provider]
        # The security groups whose nodes may mount a created file system.
        clients = [*self.nodes, *([self.home.security_group] if spec.open_to == "cluster" else [])]
        parts = {
            "home": self.home,
            "clients": clients,
            "namespace": site.namespace,
            "scope": site.scope,
            "opts": pulumi.ResourceOptions(providers=[self.provider, *kubernetes]),
        }
        if isinstance(spec, EfsStoreSpec):
            return SharedStore(EfsStore(name, spec, **parts).claim)
        return SharedStore(FsxStore(name, spec, **parts).claim)

    def controllers(
        self,
        sections: Sections,
        *,
        seeds: tuple[pulumi.Output[str], ...],
        opts: pulumi.ResourceOptions,
    ) -> tuple[pulumi.Resource, ...]:
        """Install the Cluster Autoscaler for node groups that can grow, and the AWS Load Balancer
        Controller for the gateway.
        """
        access = None if sections.gateway is None else sections.gateway.access
        balances = self.spec.installs_load_balancers(access) and bool(seeds)
        if not balances and not self.spec.installs_autoscaler(sections):
            return ()
        from inferplan.components.namespace import InferenceNamespace
        from inferplan.components.platforms.aws.cluster_autoscaler import ClusterAutoscaler
        from inferplan.components.platforms.aws.load_balancer_controller import (
            LoadBalancerController,
        )

        both = pulumi.ResourceOptions(
            providers=[self.provider, *([] if opts.provider is None else [opts.provider])]
        )
        namespace = InferenceNamespace(
            CONTROLLERS_NAMESPACE, targets=(), dns_addresses=self.dns_addresses, opts=opts
        ).live_name
        ready: list[pulumi.Resource] = []
        if self.spec.installs_autoscaler(sections):
            ready.append(
                ClusterAutoscaler(
                    self.spec, home=self.home, sections=sections, namespace=namespace, opts=both
                ).ready
            )
        if balances and access is not None:
            ingress_class = access.ingress_class
            controller = LoadBalancerController(
                self.spec,
                home=self.home,
                namespace=namespace,
                ingress_class=ingress_class,
                seed=seeds[0],
                opts=both,
            )
            ready += controller.ready
        return tuple(ready)


def aws_platform(cluster: EksClusterFields, sections: Sections, stack: str) -> AwsPlatform:
    """Declare cluster, pools and add-ons of `stack`; stores and everything in Kubernetes follow."""
    provider = _provider(cluster, stack)
    options = pulumi.ResourceOptions(provider=provider)
    access: tuple[pulumi.Resource, ...] = ()
    pools = {name: pool for name, pool in sections.node_pools.items() if isinstance(pool, EksPool)}
    node_groups = any(not pool.is_auto_mode for pool in pools.values())
    if cluster.create is None:
        home = adopted_cluster(cluster, provider=provider)
    else:
        created = CreatedCluster(
            cluster.name, cluster, cluster.create, node_groups=node_groups, opts=options
        )
        home, access = created.home, created.access
    lookup = pulumi.InvokeOptions(provider=provider)
    pulumi.Output.from_input(warn_about_prerequisites(cluster, sections, stack, lookup))
    nodes = declare_nodes(pools, sections, cluster, home, access, provider)
    ready = nodes.ready
    if cluster.create is not None:
        kinds = {store.kind for store in sections.storage.values()}
        # The add-ons run on CPU nodes: a group of accelerators without capacity must not delay the
        # cluster's DNS.
        ready += ClusterAddons(
            "addons",
            home=home,
            create=cluster.create,
            stores=kinds,
            node_groups=node_groups,
            accelerators=any(
                pool.accelerator is not None and not pool.is_auto_mode for pool in pools.values()
            ),
            nodes=nodes.plain or ready,
            opts=options,
        ).ready
    return AwsPlatform(
        spec=cluster,
        home=home,
        provider=provider,
        kubeconfig=kubeconfig(home),
        targets=nodes.targets,
        # Everything inside the cluster needs nodes to be created and to be deleted: otherwise a
        # destroy removes the nodes first, and an object that waits for a controller to clean up (an
        # Ingress, a volume) waits forever.
        ready=(*ready, *access),
        nodes=nodes.groups,
        dns_addresses=_dns_addresses(cluster, home),
        load_balancing=AUTO_MODE if cluster.balances_in_auto_mode else CONTROLLER,
    )


def _dns_addresses(
    cluster: EksClusterFields, home: EksClusterHandle
) -> tuple[pulumi.Input[str], ...]:
    """Return the networks of the DNS server that runs on each node of EKS Auto Mode, at the tenth
    address of the Services.

    It is not a pod, so a NetworkPolicy can only admit its address (aws/containers-roadmap#2552,
    read 2026-11). For a created cluster, EKS chooses one of two networks (EKS API reference,
    KubernetesNetworkConfigRequest, read 2026-11).
    """
    if not cluster.has_auto_mode:
        return ()
    if cluster.is_created:
        return ("172.20.0.10/32", "10.100.0.10/32")
    return (home.service_cidr.apply(lambda network: f"{IPv4Network(network)[10]}/32"),)


def _provider(spec: EksClusterFields, stack: str) -> aws.Provider:
    """Return the AWS provider of the cluster's region, which rejects any other account if the
    cluster names its account.
    """
    tags = aws.ProviderDefaultTagsArgs(tags={**spec.tags, "inferplan.dev/stack": stack})
    accounts = None if spec.known_account is None else [spec.known_account]
    return aws.Provider("aws", region=spec.region, allowed_account_ids=accounts, default_tags=tags)
