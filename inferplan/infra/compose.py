"""Wires a stack: every component, top to bottom, in dependency order. It decides nothing that the
settings do not say.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

from inferplan.components.benchmark.benchmark_job import BenchmarkInputs, BenchmarkJob
from inferplan.components.gateway.api_keys import ApiKeys
from inferplan.components.gateway.exposure import requirements
from inferplan.components.gateway.gateway import GATEWAY_PODS, declare_gateway
from inferplan.components.gateway.routes import model_url
from inferplan.components.handles import Endpoint, NodeTarget
from inferplan.components.images.rewriting import image_options
from inferplan.components.metrics_ports import STATUS_PORT
from inferplan.components.monitoring.metrics_access import MetricsAccess, Observed
from inferplan.components.namespace import InferenceNamespace
from inferplan.components.nodes.node_pool import declare_pools
from inferplan.components.objects.extra_objects import ExtraObjects
from inferplan.components.platforms.platform import StoreSite
from inferplan.components.queue.queues import Queues
from inferplan.components.size_limit import size_options
from inferplan.components.sources import ModelMount, ModelSource
from inferplan.infra.image_evidence import image_evidence
from inferplan.infra.models import Models, endpoints_of, image_pulls_of, side_endpoints
from inferplan.infra.providers import cluster_options
from inferplan.stackfile.facts import facts_of
from inferplan.stackfile.stack import Stack, StackSettings
from inferplan.stackfile.watched import watched


def compose(stack: Stack) -> None:
    """Declare every resource of `stack`, and export the gateway's URL, and the URL, protocols and
    consumers of each model.
    """
    spec = stack.settings
    pulumi.log.info(image_evidence(spec))
    platform = spec.cluster.platform(
        spec, stack=stack.name, simulated_kubeconfig=stack.simulated_kubeconfig
    )
    kube = pulumi.ResourceOptions.merge(
        pulumi.ResourceOptions.merge(cluster_options(platform), image_options(spec.images)),
        size_options(),
    )
    targets = declare_pools(spec.node_pools, platform.targets, opts=kube)
    controllers = platform.controllers(spec, seeds=stack.secrets.seeds, opts=kube)
    monthly_usd = None if spec.budget is None else spec.budget.monthly_usd
    home = InferenceNamespace(
        spec.namespace,
        targets=targets.values(),
        monthly_usd=monthly_usd,
        gateway=requirements(spec.gateway, platform.load_balancing),
        adopted=spec.adopt_namespace,
        dns_addresses=platform.dns_addresses,
        after=controllers,
        opts=kube,
    )
    inside = pulumi.ResourceOptions.merge(kube, pulumi.ResourceOptions(parent=home))
    if spec.extra_objects:
        ExtraObjects("extra-objects", spec.extra_objects, namespace=home.live_name, opts=inside)
    site = StoreSite(namespace=home.live_name, scope=spec.namespace, targets=targets, opts=kube)
    stores = {name: platform.store(name, store, site) for name, store in spec.storage.items()}
    keys = _keys_of(stack, namespace=home.live_name, opts=inside)
    images = image_pulls_of(spec, targets, namespace=home.live_name, opts=inside)
    endpoints = endpoints_of(spec)
    gateway = declare_gateway(
        spec.gateway,
        endpoints,
        keys,
        namespace=home.live_name,
        balancing=platform.load_balancing,
        monitoring=spec.monitoring,
        public_routes=spec.public_routes,
        opts=inside,
    )
    models = Models(
        settings=spec,
        namespace=home.live_name,
        targets=targets,
        stores=stores,
        keys=keys,
        images=images,
        queues=_queues(spec, targets, namespace=home.live_name, opts=inside),
        gateway=() if gateway is None else gateway.ready,
        opts=inside,
    )
    weights = {
        each.model: models.serve(each.model, spec.models[each.model], each) for each in endpoints
    }
    _declare_measurements(spec, weights, keys, endpoints, namespace=home.live_name, opts=inside)
    url = None if gateway is None else gateway.url
    pulumi.export("gateway", url)
    sides = side_endpoints(spec, endpoints)
    pulumi.export("facts", facts_of(spec, sides, two_seeds=keys.two_seeds))
    pulumi.export("models", {each.model: _output(each, url, spec.namespace) for each in endpoints})


def _queues(
    spec: StackSettings,
    targets: Mapping[str, NodeTarget],
    *,
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> Mapping[str, pulumi.Resource]:
    """The resource by queue that its models wait for."""
    if not spec.queues:
        return {}
    return Queues(
        "queues",
        spec.queues,
        targets=targets,
        scope=spec.namespace,
        namespace=namespace,
        opts=opts,
    ).ready


def _keys_of(
    stack: Stack, *, namespace: pulumi.Output[str], opts: pulumi.ResourceOptions
) -> ApiKeys:
    spec = stack.settings
    return ApiKeys(
        "api-keys",
        spec.consumers,
        tuple(spec.called_models),
        namespace=namespace,
        seeds=stack.secrets.seeds,
        imported_keys=stack.secrets.imported_keys,
        history=spec.key_history,
        plain_text=spec.gateway is not None and not spec.gateway.hashes_keys,
        opts=opts,
    )


def _declare_measurements(
    spec: StackSettings,
    weights: Mapping[str, ModelMount | ModelSource | None],
    keys: ApiKeys,
    endpoints: tuple[Endpoint, ...],
    *,
    namespace: pulumi.Output[str],
    opts: pulumi.ResourceOptions,
) -> None:
    if spec.benchmark is not None:
        tokenizer, key = (
            weights[spec.benchmark.tokenizer],
            keys.consumer_key(spec.benchmark.consumer),
        )
        prefix = "" if spec.gateway is None else spec.gateway.access.path_prefix
        inputs = BenchmarkInputs(
            tokenizer=tokenizer,
            key=key,
            gateway=GATEWAY_PODS,
            path_prefix=prefix,
            namespace=namespace,
        )
        BenchmarkJob("benchmark", spec.benchmark, inputs, endpoints=endpoints, opts=opts)
    if spec.monitoring is not None:
        scrape = spec.monitoring.scrape
        preheats = (
            scrape is not None
            and scrape.preheats
            and any(model.preheat is not None for model in spec.models.values())
        )
        traced = [name for name, model in spec.models.items() if model.traces]
        pods = Observed(
            endpoints=side_endpoints(spec, endpoints),
            traced=traced,
            preheats=preheats,
            stack=watched(spec),
        )
        MetricsAccess(
            "metrics",
            spec.monitoring,
            pods,
            namespace=namespace,
            gateway=GATEWAY_PODS,
            gateway_port=STATUS_PORT,
            opts=opts,
        )


def _output(endpoint: Endpoint, gateway: str | None, namespace: str) -> dict[str, Any]:
    return {
        "url": model_url(endpoint, gateway=gateway, namespace=namespace),
        "protocols": [protocol.kind for protocol in endpoint.protocols],
        "consumers": list(endpoint.consumers),
    }
