"""The AWS half of a stack: cluster, nodes, stores and the roles of their readers. Loaded only by a stack on EKS.

It wires, like `compose`, and declares nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import pulumi

from components.handles import EksClusterHandle, NodeTarget
from components.platforms.aws.cluster import ClusterAddons, CreatedCluster, adopted_cluster
from components.platforms.aws.efs import EfsStore
from components.platforms.aws.node_pool import EksNodePool, NodeIdentity
from components.platforms.aws.pool_spec import EksPool
from components.platforms.aws.s3_store import AwsS3Store
from components.platforms.aws.store_spec import EfsStoreSpec
from components.storage.disk_spec import NodeDiskStoreSpec
from components.storage.spec import S3StoreSpec

if TYPE_CHECKING:
    from components.platforms.aws.cluster_spec import EksCluster
    from stackfile.stack import StackSettings


@dataclass(frozen=True, kw_only=True)
class AwsPlatform:
    """The AWS resources of a stack. `ready` are created before everything inside the cluster, and deleted after it.

    `nodes` is the security group of the nodes of the stack's own pools, None where it makes none.
    """

    spec: EksCluster
    home: EksClusterHandle
    provider: pulumi.ProviderResource
    targets: Mapping[str, NodeTarget]
    ready: tuple[pulumi.Resource, ...]
    nodes: pulumi.Output[str] | None

    def store(
        self, name: str, spec: S3StoreSpec | EfsStoreSpec, *, namespace: pulumi.Output[str], scope: str, kube: pulumi.ResourceOptions
    ) -> AwsS3Store | EfsStore:
        """The store that `spec` describes. `namespace` is the live namespace, `scope` its name, `kube` where Kubernetes objects go."""
        aws = pulumi.ResourceOptions(provider=self.provider)
        match spec:
            case S3StoreSpec():
                return AwsS3Store(name, spec, home=self.home, method=self.spec.identity, namespace=scope, opts=aws)
            case EfsStoreSpec():
                both = pulumi.ResourceOptions(providers=[self.provider, *_provider_of(kube)])
                return EfsStore(name, spec, home=self.home, clients=self._clients(spec), namespace=namespace, scope=scope, opts=both)
            case _:
                assert_never(spec)

    def _clients(self, spec: EfsStoreSpec) -> list[pulumi.Input[str]]:
        """The security groups whose machines may mount a created file system."""
        own: list[pulumi.Input[str]] = [] if self.nodes is None else [self.nodes]
        return [*own, self.home.security_group] if spec.open_to == "cluster" else own


def _provider_of(options: pulumi.ResourceOptions) -> list[pulumi.ProviderResource]:
    return [] if options.provider is None else [options.provider]


def aws_platform(cluster: EksCluster, settings: StackSettings, provider: pulumi.ProviderResource) -> AwsPlatform:
    """Declares cluster and pools; the Kubernetes side comes afterwards."""
    options = pulumi.ResourceOptions(provider=provider)
    access: tuple[pulumi.Resource, ...] = ()
    if cluster.create is None:
        home = adopted_cluster(cluster, provider=provider)
    else:
        created = CreatedCluster(cluster.name, cluster, cluster.create, opts=options)
        home, access = created.home, created.access
    pools = {name: pool for name, pool in settings.node_pools.items() if isinstance(pool, EksPool)}
    targets: dict[str, NodeTarget] = {}
    groups: list[pulumi.Resource] = []
    identity: NodeIdentity | None = None
    if pools:
        identity = NodeIdentity("nodes", home=home, cni=cluster.create is None and cluster.cni_uses_node_role, opts=options)
        for name, pool in pools.items():
            made = EksNodePool(
                name,
                pool,
                home=home,
                identity=identity,
                images=_images(name, settings),
                directories=_directories(name, settings),
                opts=options,
            )
            targets[name] = made.target
            groups += made.groups
    if cluster.create is not None:
        efs = any(isinstance(store, EfsStoreSpec) for store in settings.storage.values())
        groups += ClusterAddons("addons", home=home, efs=efs, nodes=tuple(groups), opts=options).ready
    return AwsPlatform(
        spec=cluster,
        home=home,
        provider=provider,
        targets=targets,
        ready=(*groups, *access),
        nodes=None if identity is None else identity.group,
    )


def _directories(pool: str, settings: StackSettings) -> list[str]:
    """The directories that stores keep on the nodes of `pool`."""
    return [store.path for store in settings.storage.values() if isinstance(store, NodeDiskStoreSpec) and store.pool == pool]


def _images(pool: str, settings: StackSettings) -> int:
    """The number of different engine images on `pool`."""
    return max(1, len({(model.engine, model.image) for model in settings.models.values() if model.pool == pool}))
