"""One stack as frozen values: what its file says, and the secrets that it may use. It reads nothing
and judges nothing between its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Self, cast

from pydantic import Field, model_validator

from inferplan.components.benchmark.spec import BenchmarkSpec
from inferplan.components.gateway.consumer_spec import ConsumerSpec, KeyRecord
from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.gateway.spec import GatewaySpec
from inferplan.components.images.spec import ImagesSpec
from inferplan.components.monitoring.spec import MonitoringSpec
from inferplan.components.naming import NAMESPACE
from inferplan.components.objects.spec import ExtraObject
from inferplan.components.platforms.spec import ClusterSpec
from inferplan.components.pools import NodePoolSpec
from inferplan.components.queue.spec import QueueSpec
from inferplan.components.serving.spec import ModelSpec
from inferplan.components.spec import DnsLabel, Name, Spec
from inferplan.components.stores import StoreSpec
from inferplan.documents.errors import KeyPath

if TYPE_CHECKING:
    import pulumi


class BudgetSpec(Spec):
    """The most that a stack may cost, judged by the most that its pools may grow to, and from which
    increase on a report calls it a risk.
    """

    monthly_usd: Annotated[int, Field(ge=0, le=100_000_000)]
    """US dollars a month at list prices, without what is paid by use."""
    review_percent: Annotated[int, Field(ge=0, le=1000)] = 25
    """A report calls a higher monthly cost a risk above this percentage, if it is also above
    `reviewUsd`.
    """
    review_usd: Annotated[int, Field(ge=0, le=100_000_000)] = 500
    """A report calls a higher monthly cost a risk above these US dollars, if it is also above
    `reviewPercent`.
    """


class StackSettings(Spec):
    """The settings of a stack, without its secrets. The keys of maps are names."""

    cluster: ClusterSpec
    """The Kubernetes cluster that everything runs on: existing, one of EKS, or simulated."""
    namespace: DnsLabel = NAMESPACE
    """The Kubernetes namespace that holds the models and the gateway."""
    adopt_namespace: bool = False
    """True uses a namespace that exists already. The stack does not create, label or delete it,
    sets no quota, and isolates only its own pods.
    """
    node_pools: dict[Name, NodePoolSpec]
    """Pools of nodes by name, each with its accelerator and size."""
    storage: dict[Name, StoreSpec] = {}
    """Model stores by name, S3 buckets, NFS shares and EFS file systems."""
    queues: dict[Name, QueueSpec] = {}
    """Kueue queues by name, each with quotas of pools; models wait in them for capacity."""
    models: dict[Name, ModelSpec] = {}
    """Models by name, each with its engine, weights, pool and consumers."""
    gateway: GatewaySpec | None = None
    """The API gateway, which checks keys. Omit it, or set {}, for none."""
    routes: dict[Name, RouteSpec] = {}
    """Public names of models by name, each with the models that answer and their shares."""
    consumers: dict[Name, ConsumerSpec] = {}
    """Holders of API keys by name, each with the key versions that are valid now."""
    key_history: dict[Name, KeyRecord] = {}
    """The key versions that each consumer ever had, also after its removal. `inferplan keys` writes
    it; a revoked key never returns.
    """
    monitoring: MonitoringSpec | None = None
    """The Prometheus that may scrape the models. Omit it, or set {}, for none."""
    benchmark: BenchmarkSpec | None = None
    """A comparison of models under the same load. Omit it, or set {}, for none."""
    images: ImagesSpec = ImagesSpec()
    """The registry mirror and the pull secrets of all images."""
    extra_objects: Annotated[dict[Name, ExtraObject], Field(max_length=64)] = {}
    """Further Kubernetes objects by name, as Kubernetes writes them. Policies and the rehearsal
    check them like all others.
    """
    budget: BudgetSpec | None = None
    """The maximum cost of the stack. Omit it, or set {}, for no limit."""

    @model_validator(mode="after")
    def _resolve_pools(self) -> Self:
        keepers = {store.node_pool for store in self.storage.values()}
        for name, pool in self.node_pools.items():
            self.node_pools[name] = cast(
                "NodePoolSpec", self.cluster.resolved(pool, keeps_models=name in keepers)
            )
        return self

    @model_validator(mode="after")
    def _split_models(self) -> Self:
        """Replace each model whose prefill and decode are split with its two sides."""
        whole = dict(self.models)
        self.models.clear()
        for name, model in whole.items():
            self.models.update(
                {
                    key: part
                    for key, part in model.parts(name).items()
                    if key == name or key not in whole
                }
            )
        return self

    @property
    def called_models(self) -> dict[str, ModelSpec]:
        """The models that clients call: those of `models` that are not a side of another one."""
        return {name: each for name, each in self.models.items() if each.whole(name) == name}

    @property
    def public_routes(self) -> dict[str, RouteSpec]:
        """Names at /v1 with consumers of their own: the routes, and adapters that state theirs."""
        adapters = {
            adapter: RouteSpec(backends={name: 1}, consumers=[*consumers])
            for name, model in self.called_models.items()
            for adapter, consumers in model.adapter_consumers.items()
        }
        return self.routes | adapters

    def written_at(self, path: KeyPath) -> KeyPath:
        """Return where the stack file has the value at `path`, which may be of one side of a model."""
        model = self.models.get(str(path[1])) if path[:1] == ("models",) and path[1:] else None
        return path if model is None else ("models", *model.written_at(str(path[1]), path[2:]))


@dataclass(frozen=True)
class StackSecrets:
    """Secret values of a stack; never part of a spec, never shown."""

    seeds: tuple[pulumi.Output[str], ...] = field(repr=False)
    """The seeds that API keys are derived from: the current seed and, during a rotation, the
    previous one.
    """
    imported_keys: dict[str, dict[int, pulumi.Output[str]]] = field(
        default_factory=dict, repr=False
    )
    """Keys that users import instead, by consumer and version."""


@dataclass(frozen=True)
class Stack:
    """One environment: its name, what it says, its secrets, and where the simulated cluster's
    kubeconfig lies.
    """

    name: str
    settings: StackSettings
    secrets: StackSecrets
    simulated_kubeconfig: str
