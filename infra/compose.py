"""Wires a stack: every component, top to bottom, in dependency order. It decides nothing that the settings do not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, assert_never

import pulumi

from components.benchmark.benchmark_job import BenchmarkInputs, BenchmarkJob
from components.gateway.api_keys import ApiKeys
from components.gateway.exposure import requirements
from components.gateway.gateway import GATEWAY_PODS, Gateway
from components.gateway.spec import EnvoyGatewaySpec, GatewaySpec, NginxGatewaySpec
from components.handles import Endpoint, ModelMount, NodeTarget, ObjectStore
from components.monitoring.metrics_access import MetricsAccess
from components.namespace import InferenceNamespace
from components.nodes.device_plugin import DevicePlugin, plugin_targets
from components.nodes.eks_spec import EksPool
from components.nodes.image_pull import ImagePull
from components.nodes.node_pool import NodePool, RuntimeClasses
from components.nodes.simulated import runtime_classes_of
from components.nodes.spec import NodePoolSpec
from components.queue.names import queue_labels
from components.queue.queues import Queues
from components.serving.demand import cards_of_others
from components.serving.site import Site, endpoint_of, serve
from components.serving.spec import ModelSpec
from components.serving.workload import image_of
from infra.image_evidence import image_evidence
from infra.model_files import ModelFiles, stores_of
from infra.providers import aws_provider, cluster_options

if TYPE_CHECKING:
    from components.gateway.envoy import EnvoyGateway
    from infra.aws import AwsPlatform
    from stackfile.stack import Stack, StackSettings


@dataclass(frozen=True, kw_only=True)
class Exports:
    """What a stack tells the outside: where its models answer, never a key."""

    namespace: pulumi.Output[str]
    endpoints: tuple[Endpoint, ...]
    gateway_url: str | None
    gateway_grpc: str | None

    def export(self) -> None:
        """Makes these the stack's outputs."""
        pulumi.export("namespace", self.namespace)
        pulumi.export("gateway", self.gateway_url)
        pulumi.export("gatewayGrpc", self.gateway_grpc)
        pulumi.export("endpoints", {each.model: asdict(each) for each in self.endpoints})


def compose(stack: Stack) -> Exports:
    """Declares every resource of `stack`."""
    spec = stack.settings
    pulumi.log.info(image_evidence(spec))
    platform = _aws(spec, stack.name)
    kube = cluster_options(spec.cluster, simulated_kubeconfig=stack.simulated_kubeconfig, platform=platform)
    targets = _pools(spec.node_pools, platform, opts=kube)
    _node_services(spec.node_pools, targets, opts=kube)
    monthly_usd = None if spec.budget is None else spec.budget.monthly_usd
    home = InferenceNamespace(
        spec.namespace, targets=targets.values(), monthly_usd=monthly_usd, gateway=requirements(spec.gateway), opts=kube
    )
    inside = pulumi.ResourceOptions.merge(kube, pulumi.ResourceOptions(parent=home))
    stores = stores_of(spec, platform, targets, namespace=home.inside, opts=kube)
    files = ModelFiles(stores=stores, targets=targets, namespace=home.inside, opts=inside)
    secrets = stack.secrets
    keys = ApiKeys(
        "api-keys",
        spec.consumers,
        tuple(spec.models),
        namespace=home.inside,
        seeds=secrets.seeds,
        imported_keys=secrets.imported_keys,
        plain_text=spec.gateway is not None and not spec.gateway.hashes_keys,
        opts=inside,
    )
    images = _images(spec, targets, namespace=home.inside, opts=inside)
    endpoints = tuple(endpoint_of(name, model, keys.server_key(name)) for name, model in spec.models.items())
    gateway = _gateway(spec.gateway, endpoints, keys, namespace=home.inside, opts=inside)
    entrance = () if gateway is None else gateway.ready
    queues = (
        Queues("queues", spec.queues, targets=targets, scope=spec.namespace, namespace=home.inside, opts=inside) if spec.queues else None
    )
    around = _Surroundings(
        settings=spec, queues=queues, namespace=home.inside, targets=targets, files=files, keys=keys, images=images, entrance=entrance
    )
    weights = {name: _serve(name, model, around, opts=inside) for name, model in spec.models.items()}
    if spec.benchmark is not None:
        tokenizer, key = weights[spec.benchmark.tokenizer], keys.consumer_key(spec.benchmark.consumer)
        lent = BenchmarkInputs(tokenizer=tokenizer, key=key, gateway=GATEWAY_PODS, namespace=home.inside)
        BenchmarkJob("benchmark", spec.benchmark, lent, endpoints=endpoints, opts=inside)
    if spec.monitoring is not None:
        MetricsAccess("metrics", spec.monitoring, namespace=home.inside, endpoints=endpoints, opts=inside)
    url, grpc = (None, None) if gateway is None else (gateway.url, gateway.grpc)
    return Exports(namespace=home.inside, endpoints=endpoints, gateway_url=url, gateway_grpc=grpc)


def _gateway(
    spec: GatewaySpec | None, endpoints: Sequence[Endpoint], keys: ApiKeys, *, namespace: pulumi.Output[str], opts: pulumi.ResourceOptions
) -> Gateway | EnvoyGateway | None:
    match spec:
        case None:
            return None
        case NginxGatewaySpec():
            return Gateway("gateway", spec, namespace=namespace, endpoints=endpoints, keys=keys, opts=opts)
        case EnvoyGatewaySpec():
            from components.gateway.envoy import EnvoyGateway

            return EnvoyGateway("gateway", spec, namespace=namespace, endpoints=endpoints, keys=keys, opts=opts)
        case _:
            assert_never(spec)


def _aws(spec: StackSettings, stack: str) -> AwsPlatform | None:
    if spec.cluster.provider != "eks":
        return None
    # Only here is pulumi_aws loaded: a stack without AWS would pay a second and 80 MiB for it.
    from infra import lean_aws

    lean_aws.install()
    from infra.aws import aws_platform

    return aws_platform(spec.cluster, spec, aws_provider(spec.cluster, stack=stack))


def _pools(pools: Mapping[str, NodePoolSpec], platform: AwsPlatform | None, *, opts: pulumi.ResourceOptions) -> dict[str, NodeTarget]:
    made = {} if platform is None else platform.targets
    # Pools of EC2 machines without a platform are refused where the stack is read.
    return {name: made[name] if isinstance(pool, EksPool) else NodePool(name, pool, opts=opts).target for name, pool in pools.items()}


def _node_services(pools: Mapping[str, NodePoolSpec], targets: Mapping[str, NodeTarget], *, opts: pulumi.ResourceOptions) -> None:
    """What pods need of nodes that this stack makes: the runtime classes that they name, and the device plugins."""
    classes = runtime_classes_of({name: pool for name, pool in pools.items() if pool.provider != "existing"})
    if classes:
        RuntimeClasses("runtime-classes", classes, opts=opts)
    for kind, lacking in plugin_targets(pools, targets).items():
        DevicePlugin(f"{kind}-device-plugin", kind, lacking, opts=opts)


def _images(
    spec: StackSettings, targets: Mapping[str, NodeTarget], *, namespace: pulumi.Output[str], opts: pulumi.ResourceOptions
) -> dict[str, ImagePull]:
    """What pulls the images of models onto the nodes of the pools that ask for it, by pool."""
    pulls: dict[str, ImagePull] = {}
    for name in (name for name, pool in spec.node_pools.items() if pool.pre_pull_images):
        used = sorted({image_of(model, model.engine, targets[name]) for model in spec.models.values() if model.pool == name})
        if used:
            pulls[name] = ImagePull(f"{name}-images", used, target=targets[name], namespace=namespace, opts=opts)
    return pulls


@dataclass(frozen=True, kw_only=True)
class _Surroundings:
    """What every model of the stack is served among."""

    settings: StackSettings
    queues: Queues | None
    namespace: pulumi.Output[str]
    targets: Mapping[str, NodeTarget]
    files: ModelFiles
    keys: ApiKeys
    images: Mapping[str, ImagePull]
    entrance: tuple[pulumi.Resource, ...]


def _serve(name: str, spec: ModelSpec, around: _Surroundings, *, opts: pulumi.ResourceOptions) -> ModelMount | ObjectStore:
    site = Site(
        namespace=around.namespace,
        target=around.targets[spec.pool],
        weights=around.files.weights(name, spec),
        artifacts=around.files.artifacts(name, spec),
        server_key=around.keys.server_key(name),
        server_key_marks=around.keys.server_key_marks(name),
        gateway=GATEWAY_PODS,
        queue_labels=queue_labels(around.settings.namespace, spec.queue, spec.queue_priority),
        queue=None if around.queues is None or spec.queue is None else around.queues.ready[spec.queue],
        cards_of_others=cards_of_others(around.settings.models, name),
        images=around.images[spec.pool].ready if spec.pool in around.images else None,
        entrance=around.entrance,
    )
    serve(name, spec, site, opts=opts)
    return site.weights
