"""Wires the models of a stack: their stores, their preheats, the pulls of their images, and their
servers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import pulumi

from inferplan.components.gateway.api_keys import ApiKeys
from inferplan.components.gateway.consumer_spec import token_budgets
from inferplan.components.gateway.gateway import GATEWAY_PODS
from inferplan.components.gateway.keys import server_key_ref
from inferplan.components.gateway.route_spec import names_for
from inferplan.components.handles import Endpoint, NodeTarget
from inferplan.components.kubernetes import resource
from inferplan.components.monitoring.observed import scrape_annotations
from inferplan.components.naming import bounded, labels
from inferplan.components.nodes.image_pull import ImagePull
from inferplan.components.preheat.preheat_job import PreheatJob, preheat_program
from inferplan.components.preheat.spec import PreheatSpec, artifact_job
from inferplan.components.queue.spec import queue_labels
from inferplan.components.router.router import RoutedModel, Router
from inferplan.components.serving.claims import claim_name, claimed, shared_devices
from inferplan.components.serving.demand import accelerators_by_pool
from inferplan.components.serving.engine import Site, TraceSink
from inferplan.components.serving.first_request import Part, first_request
from inferplan.components.serving.groups import answering
from inferplan.components.serving.scaling import counted
from inferplan.components.serving.server_container import image_of
from inferplan.components.serving.spec import ModelSpec, engine_of
from inferplan.components.serving.workload import budget
from inferplan.components.sources import ModelMount, ModelSource
from inferplan.components.storage.model_store import ModelStore
from inferplan.components.stores import WeightsSpec
from inferplan.stackfile.stack import StackSettings


@dataclass(frozen=True, kw_only=True)
class Models:
    """The models of a stack, and the resources that all of them share. `gateway` must be ready
    before servers.
    """

    settings: StackSettings
    namespace: pulumi.Output[str]
    targets: Mapping[str, NodeTarget]
    stores: Mapping[str, ModelStore]
    keys: ApiKeys
    images: Mapping[str, ImagePull]
    queues: Mapping[str, pulumi.Resource]
    gateway: tuple[pulumi.Resource, ...]
    opts: pulumi.ResourceOptions

    @cached_property
    def _requested(self) -> Mapping[str, int]:
        return accelerators_by_pool(self.settings.models.values())

    @cached_property
    def _shared_claims(self) -> Mapping[str, pulumi.Input[str]]:
        """The claims of the devices that models share, by model, declared once."""
        places = shared_devices(self.settings.models, self.targets)
        claims = {}
        for pool, index in sorted({*places.values()}):
            claim = claimed(self.targets[pool], 1) or {}
            claims[pool, index] = resource.ResourceClaim(
                called := claim_name(f"{pool}-shared-{index}", claim),
                metadata={
                    "name": called,
                    "namespace": self.namespace,
                    "labels": labels("devices", pool),
                },
                spec=cast("resource.ResourceClaimSpecArgsDict", claim),
                opts=self.opts,
            ).metadata["name"]
        return {name: claims[place] for name, place in places.items()}

    @cached_property
    def _program(self) -> pulumi.Resource:
        return preheat_program(self.namespace, self.settings.monitoring, opts=self.opts)

    @cached_property
    def _sides(self) -> Mapping[str, Mapping[str, ModelSpec]]:
        """The servers of each model that clients call: its own, or both sides of a split model."""
        sides: dict[str, dict[str, ModelSpec]] = {}
        for part, side in self.settings.models.items():
            sides.setdefault(side.whole(part), {})[part] = side
        return sides

    def serve(
        self, name: str, spec: ModelSpec, endpoint: Endpoint
    ) -> ModelMount | ModelSource | None:
        """Declare the servers of model `name`, both sides if it is split, and its router."""
        peers: list[pulumi.Resource] = []
        seconds, sites = 0, {}
        for part, side in self._sides[name].items():
            sites[part] = site = self._site(part, side, peers)
            seconds += budget(side, site.target, site.weights).rollout
            engine_of(side).serve(part, self._scraped(side, endpoint), site, opts=self.opts)
        if spec.routed_by is not None:
            routed = _routed(name, spec, sites[name], endpoint, seconds)
            Router(spec.routed_by, routed, opts=self.opts)
        return sites[name].weights

    def _scraped(self, spec: ModelSpec, endpoint: Endpoint) -> ModelSpec:
        """Return `spec` with the annotations of monitoring; those that the user wrote win."""
        added = scrape_annotations(
            self.settings.monitoring, endpoint.metrics_port, endpoint.metrics_path
        )
        return spec.model_copy(update={"annotations": {**added, **spec.annotations}})

    def _site(self, name: str, spec: ModelSpec, peers: list[pulumi.Resource]) -> Site:
        """Return the inputs of the servers `name`; those of a split model have one key."""
        whole = spec.whole(name)
        monitoring = self.settings.monitoring
        tracing = None if monitoring is None else monitoring.tracing
        return Site(
            namespace=self.namespace,
            target=self.targets[spec.pool],
            weights=self._weights(name, spec),
            artifacts=self._artifacts(name, spec),
            server_key=self.keys.server_key(whole),
            server_key_marks=self.keys.server_key_marks(whole),
            gateway=GATEWAY_PODS,
            queue_labels=queue_labels(self.settings.namespace, spec.queue, spec.queue_priority),
            queue=None if spec.queue is None else self.queues.get(spec.queue),
            prometheus=None if monitoring is None else monitoring.prometheus.url,
            prometheus_login=(
                None
                if monitoring is None or monitoring.prometheus.login is None
                else monitoring.prometheus.login.mode
            ),
            tracing=(
                None
                if tracing is None or not spec.traces
                else TraceSink(url=tracing.url, percent=tracing.percent)
            ),
            accelerators_of_others=self._requested[spec.pool] - spec.most_accelerators,
            images=self.images[spec.pool].ready if spec.pool in self.images else None,
            public_names=names_for(whole, self.settings.routes),
            peers=peers,
            counts_tokens=spec.logs_usage and bool(token_budgets(self.settings.consumers)),
            gateway_ready=self.gateway,
            shared_claim=self._shared_claims.get(name),
        )

    def _weights(self, name: str, spec: ModelSpec) -> ModelMount | ModelSource | None:
        """Declare the weights of model `name`, preheated if its spec says so, and return their
        handle; None if it has none.
        """
        weights = spec.stored_files
        if weights is None:
            return None
        if spec.preheat is not None:
            folder = spec.folder_on(self.targets[spec.pool])
            return self._preheat(name, weights, spec.preheat, folder)
        source = self.stores[weights.store].source(name, weights.path)
        if (mount := source.mount(weights.path, weights.revision)) is not None:
            return mount
        if source.stream_address(weights.path) is None:
            raise TypeError(
                f"models.{name}.{spec.stored_files_field}.store: no engine reads {weights.store}"
                " itself. Add preheat."
            )
        return source

    def _artifacts(self, model: str, spec: ModelSpec) -> dict[str, ModelMount]:
        """Declare a preheat for each artifact of `model`, into the store that the artifact names."""
        if spec.preheat is None:
            return {}
        return {
            name: self._preheat(artifact_job(model, name), artifact, artifact.preheat(spec.preheat))
            for name, artifact in spec.artifacts.items()
        }

    def _preheat(
        self, job: str, files: WeightsSpec, preheat: PreheatSpec, folder: str | None = None
    ) -> ModelMount:
        account = bounded(job, "preheat")
        source = self.stores[files.store].source(account, files.path)
        claim = None
        if self.settings.storage[preheat.into].takes_preheats:
            claim = self.stores[preheat.into].source(account, files.path).claim
        if claim is None:
            raise TypeError(f"preheat.into: {preheat.into} is not a volume")
        return PreheatJob(
            job,
            files,
            preheat,
            source=source,
            target=claim,
            namespace=self.namespace,
            folder=folder,
            monitoring=self.settings.monitoring,
            program=self._program,
            opts=self.opts,
        ).mount


def _routed(
    name: str, spec: ModelSpec, site: Site, endpoint: Endpoint, start_seconds: int
) -> RoutedModel:
    return RoutedModel(
        name=name,
        names=list(dict.fromkeys((endpoint.served_names[0], *site.public_names))),
        namespace=site.namespace,
        pods=answering(name),
        port=endpoint.protocols[0].port,
        keys=site.server_key_marks,
        gateway=site.gateway,
        drain_seconds=spec.drain_seconds,
        start_seconds=start_seconds,
        prefill={} if (peer := spec.peer(name)) is None else answering(peer),
        bootstrap_port=spec.bootstrap_port if peer else None,
    )


def image_pulls_of(
    spec: StackSettings,
    targets: Mapping[str, NodeTarget],
    *,
    namespace: pulumi.Output[str],
    opts: pulumi.ResourceOptions,
) -> dict[str, ImagePull]:
    """Declare the pulls of models' images onto the nodes of the pools with `prePullImages`, by
    pool.
    """
    pulls: dict[str, ImagePull] = {}
    for name in (name for name, pool in spec.node_pools.items() if pool.pre_pull_images):
        images = sorted(
            {image_of(model, targets[name]) for model in spec.models.values() if model.pool == name}
        )
        secrets = {
            each.name
            for model in spec.models.values()
            if model.pool == name
            for each in model.image_pull_secrets
        }
        if images:
            pulls[name] = ImagePull(
                f"{name}-images",
                images,
                target=targets[name],
                namespace=namespace,
                pull_secrets=sorted(secrets),
                opts=opts,
            )
    return pulls


def _first_request(spec: StackSettings, model: ModelSpec) -> tuple[Part, ...]:
    pool = spec.node_pools[model.pool]
    return (
        first_request(model.pool, model, pool, adds_nodes=spec.cluster.adds_nodes(pool))
        if model.scaling
        else ()
    )


def side_endpoints(spec: StackSettings, endpoints: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """Return `endpoints`, and one for the other side of each split model, which no client calls."""
    wholes = {each.model: each for each in endpoints}
    uncalled = {"served_names": (), "consumers": ()}
    return tuple(
        wholes.get(name) or replace(wholes[model.whole(name)], model=name, router=None, **uncalled)
        for name, model in spec.models.items()
    )


def endpoints_of(spec: StackSettings) -> tuple[Endpoint, ...]:
    scraped = spec.monitoring is not None and spec.monitoring.scrape is not None
    counts = scraped and spec.gateway is not None and spec.gateway.counts_requests
    endpoints = (
        counted(
            engine_of(model).endpoint(name, model, server_key_ref(name)),
            model,
            sum(each.seconds for each in _first_request(spec, model)),
        )
        for name, model in spec.called_models.items()
    )
    followed = {
        model.whole(name)
        for name, model in spec.models.items()
        if "requests_in_flight" in model.scaling_signals
    }
    return tuple(
        replace(each, counted=True) if counts or each.model in followed else each
        for each in endpoints
    )
