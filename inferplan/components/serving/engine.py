"""The contract of an engine, and the inputs that a stack gives to each model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from inferplan.components.handles import (
    Endpoint,
    EndpointProtocol,
    NodeTarget,
    RouterAddress,
    SecretRef,
)
from inferplan.components.serving.model_parts import CalledModel, StoredModel
from inferplan.components.serving.served_model import ServedModel
from inferplan.components.sources import ModelMount, ModelSource

if TYPE_CHECKING:
    import pulumi

EngineSpec_contra = TypeVar("EngineSpec_contra", bound=ServedModel, contravariant=True)


@dataclass(frozen=True, kw_only=True)
class TraceSink:
    """The address of a collector for OTLP over HTTP, and the percent of the requests that are
    traced.
    """

    url: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class Site:
    """The inputs of a model from its stack: its namespace and nodes, its files, its server's key,
    and the labels of the gateway's pods.

    `queue_labels` put the workload into its `queue`, None for none. `server_key_marks` has a mark
    of each key that the server accepts, that of the gateway first: servers read keys once, so a
    changed mark in the pod template restarts them. There are two keys while the stack has a
    previous seed. `images` is ready when the pool's nodes have the image, None if nothing pulls it.
    `artifacts` are further files by name, on the claim of the weights. `gateway_ready` are created
    before the servers and deleted after them. `public_names` are names of routes, which requests to
    this model may have. `accelerators_of_others` are the accelerators of the pool that other models
    request. `prometheus` is the address that scalers query, `prometheus_login` the authentication
    mode of its TriggerAuthentication, None without a login. `tracing`
    is where an engine that `traces` sends its traces. `peers` are the workloads of the other side of
    a split model that are ready before this one; a workload adds itself. `counts_tokens` is true if
    servers report the tokens of consumers with a budget. `shared_claim` is the claim of the device
    that the servers share with others.
    """

    namespace: pulumi.Input[str]
    target: NodeTarget
    weights: ModelMount | ModelSource | None
    server_key: SecretRef
    server_key_marks: Mapping[SecretRef, pulumi.Input[str]]
    gateway: Mapping[str, str]
    queue_labels: Mapping[str, str] = field(default_factory=dict)
    queue: pulumi.Resource | None = field(default=None, repr=False)
    images: pulumi.Resource | None = None
    accelerators_of_others: int = 0
    prometheus: str | None = None
    prometheus_login: str | None = None
    tracing: TraceSink | None = None
    gateway_ready: tuple[pulumi.Resource, ...] = ()
    artifacts: Mapping[str, ModelMount] = field(default_factory=dict)
    public_names: tuple[str, ...] = ()
    peers: list[pulumi.Resource] = field(default_factory=list, repr=False)
    counts_tokens: bool = False
    shared_claim: pulumi.Input[str] | None = None

    @property
    def mount(self) -> ModelMount | None:
        """The weights as files; None if there are none, or the engine loads them itself."""
        return self.weights if isinstance(self.weights, ModelMount) else None

    @property
    def streamed(self) -> ModelSource | None:
        """The store from which the engine loads the weights itself."""
        return None if isinstance(self.weights, ModelMount) else self.weights


class Engine(Protocol[EngineSpec_contra]):
    """The functions of an engine's `service` module; `inferplan.components.serving.spec.engine_of`
    returns the module.
    """

    def endpoint(self, name: str, spec: EngineSpec_contra, server_key: SecretRef) -> Endpoint:
        """Return the endpoint of model `name`: plain data of its spec, known before anything is
        declared.
        """
        ...

    def serve(
        self,
        name: str,
        spec: EngineSpec_contra,
        site: Site,
        *,
        opts: pulumi.ResourceOptions | None = None,
    ) -> Endpoint:
        """Declare the servers of model `name`, and return its endpoint."""
        ...


def mounted_weights(name: str, spec: StoredModel, site: Site) -> ModelMount | None:
    """Return the mounted files of a model whose engine reads files. Raises TypeError if they are in
    a bucket.
    """
    if site.streamed is not None:
        raise TypeError(
            f"models.{name}: {spec.engine} reads files and the weights are in a bucket. Add"
            " preheat: {into: <nfs store>}."
        )
    return site.mount


def openai_endpoint(
    name: str,
    spec: CalledModel,
    *,
    port: int,
    served_names: Iterable[str],
    server_key: SecretRef | None,
    health_path: str = "/health",
    metrics_path: str = "/metrics",
    router: RouterAddress | None = None,
) -> Endpoint:
    return Endpoint(
        model=name,
        engine=spec.engine,
        host=name,
        protocols=(EndpointProtocol(kind="openai", port=port, path="/v1"),),
        health_path=health_path,
        metrics_path=metrics_path,
        metrics_port=port,
        served_names=tuple(served_names),
        consumers=tuple(spec.consumers),
        server_key=server_key,
        keeps_connections=True,
        router=router,
        by_name_only=bool(spec.adapter_consumers),
    )
