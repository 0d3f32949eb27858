"""Wires a stack: every component, top to bottom, in dependency order. It decides nothing that the settings do not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pulumi

from components.gateway.api_keys import ApiKeys
from components.gateway.gateway import GATEWAY_PODS, Gateway
from components.handles import Endpoint, ModelMount, NodeTarget, ObjectStore
from components.namespace import InferenceNamespace
from components.nodes.node_pool import NodePool, RuntimeClasses
from components.nodes.simulated import runtime_classes_of
from components.nodes.spec import NodePoolSpec
from components.preheat.preheat_job import PreheatJob
from components.serving.site import Site, serve
from components.serving.spec import ModelSpec
from components.storage.model_store import NfsStore, S3Store, model_store
from infra.providers import cluster_options

if TYPE_CHECKING:
    from infra.settings import Stack


@dataclass(frozen=True, kw_only=True)
class Exports:
    """What a stack tells the outside: where its models answer, never a key."""

    namespace: pulumi.Output[str]
    endpoints: tuple[Endpoint, ...]
    gateway_url: str | None

    def export(self) -> None:
        """Makes these the stack's outputs."""
        pulumi.export("namespace", self.namespace)
        pulumi.export("gateway", self.gateway_url)
        pulumi.export("endpoints", {each.model: asdict(each) for each in self.endpoints})


def compose(stack: Stack) -> Exports:
    """Declares every resource of `stack`."""
    spec = stack.settings
    kube = cluster_options(spec.cluster, simulated_kubeconfig=stack.simulated_kubeconfig)
    targets = {name: NodePool(name, pool, opts=kube).target for name, pool in spec.node_pools.items()}
    _runtime_classes(spec.node_pools, opts=kube)
    home = InferenceNamespace(spec.namespace, targets=targets.values(), opts=kube)
    stores = {name: model_store(name, store, namespace=home.inside, opts=kube) for name, store in spec.storage.items()}
    keys = ApiKeys("api-keys", spec.consumers, tuple(spec.models), namespace=home.inside, seed=stack.secrets.api_key_seed, opts=kube)
    endpoints = tuple(
        _serve(name, model, targets=targets, stores=stores, keys=keys, namespace=home.inside, opts=kube)
        for name, model in spec.models.items()
    )
    gateway = None
    if spec.gateway is not None:
        gateway = Gateway("gateway", spec.gateway, namespace=home.inside, endpoints=endpoints, keys=keys, opts=kube)
    return Exports(namespace=home.inside, endpoints=endpoints, gateway_url=None if gateway is None else gateway.url)


def _runtime_classes(pools: Mapping[str, NodePoolSpec], *, opts: pulumi.ResourceOptions) -> None:
    classes = runtime_classes_of({name: pool for name, pool in pools.items() if pool.provider == "simulated"})
    if classes:
        RuntimeClasses("runtime-classes", classes, opts=opts)


def _serve(
    name: str,
    spec: ModelSpec,
    *,
    targets: Mapping[str, NodeTarget],
    stores: Mapping[str, NfsStore | S3Store],
    keys: ApiKeys,
    namespace: pulumi.Output[str],
    opts: pulumi.ResourceOptions,
) -> Endpoint:
    weights = _weights(name, spec, stores=stores, namespace=namespace, opts=opts)
    site = Site(namespace=namespace, target=targets[spec.pool], weights=weights, server_key=keys.server_key(name), gateway=GATEWAY_PODS)
    return serve(name, spec, site, opts=opts)


def _weights(
    name: str,
    spec: ModelSpec,
    *,
    stores: Mapping[str, NfsStore | S3Store],
    namespace: pulumi.Output[str],
    opts: pulumi.ResourceOptions,
) -> ModelMount | ObjectStore:
    store = stores[spec.weights.store]
    source = store.claim if isinstance(store, NfsStore) else store.objects
    if spec.preheat is not None:
        share = stores[spec.preheat.into]
        if not isinstance(share, NfsStore):
            raise TypeError(f"models.{name}.preheat.into: {spec.preheat.into} is no nfs store")
        job = PreheatJob(name, spec.weights, spec.preheat, source=source, target=share.claim, namespace=namespace, opts=opts)
        return job.mount
    if isinstance(store, NfsStore):
        return ModelMount(claim=store.claim, sub_path=spec.weights.path, gate=store.claim.ready)
    return store.objects
