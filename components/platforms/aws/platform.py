"""The AWS resources of a stack: cluster, nodes, stores, and the roles of their readers. Only a stack on EKS imports this module."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.handles import NodeTarget
from components.platforms.aws.access import kubeconfig
from components.platforms.aws.cluster import ClusterAddons, CreatedCluster, adopted_cluster
from components.platforms.aws.cluster_spec import EksCluster, EksClusterHandle
from components.platforms.aws.efs import EfsStore
from components.platforms.aws.node_pool import EksNodePool, NodeIdentity
from components.platforms.aws.pool_spec import EksPool
from components.platforms.aws.s3_store import AwsS3Store
from components.platforms.aws.store_spec import EfsStoreSpec
from components.platforms.platform import Platform, Sections, StoreSite
from components.storage.fields import Store
from components.storage.model_store import ModelStore
from components.storage.spec import S3StoreSpec
from components.storage.volume_spec import NodeDiskStoreSpec


@dataclass(frozen=True, kw_only=True)
class AwsPlatform(Platform):
    """The AWS resources of a stack. `nodes` is the security group of the nodes of the stack's pools, None if it creates none."""

    spec: EksCluster
    home: EksClusterHandle
    provider: pulumi.ProviderResource
    nodes: pulumi.Output[str] | None

    def store(self, name: str, spec: Store, site: StoreSite) -> ModelStore:
        """Create the store `name`, at AWS if it is of AWS."""
        options = pulumi.ResourceOptions(provider=self.provider)
        if isinstance(spec, S3StoreSpec):
            return AwsS3Store(name, spec, home=self.home, method=self.spec.identity, namespace=site.scope, opts=options)
        if isinstance(spec, EfsStoreSpec):
            kubernetes = [] if site.opts.provider is None else [site.opts.provider]
            both = pulumi.ResourceOptions(providers=[self.provider, *kubernetes])
            clients = self._clients(spec)
            return EfsStore(name, spec, home=self.home, clients=clients, namespace=site.namespace, scope=site.scope, opts=both)
        return super().store(name, spec, site)

    def _clients(self, spec: EfsStoreSpec) -> list[pulumi.Input[str]]:
        """Return the security groups whose nodes may mount a created file system."""
        own: list[pulumi.Input[str]] = [] if self.nodes is None else [self.nodes]
        return [*own, self.home.security_group] if spec.open_to == "cluster" else own


def aws_platform(cluster: EksCluster, sections: Sections, stack: str) -> AwsPlatform:
    """Declare cluster, pools and add-ons of `stack`; stores and everything in Kubernetes follow."""
    provider = _provider(cluster, stack)
    options = pulumi.ResourceOptions(provider=provider)
    access: tuple[pulumi.Resource, ...] = ()
    if cluster.create is None:
        home = adopted_cluster(cluster, provider=provider)
    else:
        created = CreatedCluster(cluster.name, cluster, cluster.create, opts=options)
        home, access = created.home, created.access
    pools = {name: pool for name, pool in sections.node_pools.items() if isinstance(pool, EksPool)}
    targets: dict[str, NodeTarget] = {}
    groups: dict[str, tuple[pulumi.Resource, ...]] = {}
    identity: NodeIdentity | None = None
    if pools:
        identity = NodeIdentity("nodes", home=home, cni=cluster.create is None and cluster.cni_uses_node_role, opts=options)
        for name, pool in pools.items():
            node_pool = EksNodePool(
                name,
                pool,
                home=home,
                identity=identity,
                images=_images(name, sections),
                directories=_directories(name, sections),
                opts=options,
            )
            targets[name] = node_pool.target
            groups[name] = node_pool.groups
    ready = [group for each in groups.values() for group in each]
    if cluster.create is not None:
        efs = any(isinstance(store, EfsStoreSpec) for store in sections.storage.values())
        # The add-ons run on CPU nodes: a group of accelerators without capacity must not delay the cluster's DNS.
        plain = [group for name, each in groups.items() if pools[name].accelerator is None and not targets[name].taints for group in each]
        ready += ClusterAddons("addons", home=home, efs=efs, nodes=tuple(plain or ready), opts=options).ready
    return AwsPlatform(
        spec=cluster,
        home=home,
        provider=provider,
        kubeconfig=kubeconfig(home),
        targets=targets,
        # Everything inside the cluster needs nodes to be created and to be deleted: otherwise a destroy removes the nodes first, and
        # an object that waits for a controller to clean up (an Ingress, a volume) waits forever.
        ready=(*ready, *access),
        nodes=None if identity is None else identity.group,
    )


def _provider(spec: EksCluster, stack: str) -> aws.Provider:
    """Return the AWS provider of the cluster's region, which rejects any other account if the cluster names its account."""
    tags = aws.ProviderDefaultTagsArgs(tags={**spec.tags, "inferplan.dev/stack": stack})
    accounts = None if spec.account is None else [spec.account]
    return aws.Provider("aws", region=spec.region, allowed_account_ids=accounts, default_tags=tags)


def _directories(pool: str, sections: Sections) -> list[str]:
    """Return the directories that stores keep on the nodes of `pool`."""
    return [store.path for store in sections.storage.values() if isinstance(store, NodeDiskStoreSpec) and store.pool == pool]


def _images(pool: str, sections: Sections) -> int:
    """Return the number of different engine images on `pool`."""
    return max(1, len({(model.engine, model.image) for model in sections.models.values() if model.pool == pool}))
