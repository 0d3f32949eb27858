"""One stack as frozen values: what its file says, and the secrets that it may use. It reads nothing and judges nothing between its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from components.benchmark.spec import BenchmarkSpec
from components.cluster.spec import ClusterSpec
from components.gateway.consumer_spec import ConsumerSpec
from components.gateway.spec import GatewaySpec
from components.monitoring.spec import MonitoringSpec
from components.naming import NAMESPACE
from components.nodes.spec import NodePoolSpec
from components.queue.spec import QueueSpec
from components.serving.spec import ModelSpec
from components.spec import DnsLabel, Name, Spec
from components.storage.spec import StoreSpec
from stackfile.budget import BudgetSpec

if TYPE_CHECKING:
    import pulumi


class StackSettings(Spec):
    """Everything a stack file says, secrets left out. The keys of maps are the names."""

    cluster: ClusterSpec
    """The Kubernetes cluster that everything runs on: existing, one of EKS, or simulated."""
    namespace: DnsLabel = NAMESPACE
    """The Kubernetes namespace that holds the models and the gateway."""
    node_pools: dict[Name, NodePoolSpec]
    """Pools of nodes by name, each with its accelerator and size."""
    storage: dict[Name, StoreSpec] = {}
    """Model stores by name, S3 buckets, NFS shares and EFS file systems."""
    queues: dict[Name, QueueSpec] = {}
    """Queues of Kueue by name, each with the pools that it hands out; models wait in them for room."""
    models: dict[Name, ModelSpec] = {}
    """Models by name, each with its engine, weights, pool and consumers."""
    gateway: GatewaySpec | None = None
    """The key-protected way in from outside; absent or {}, there is none."""
    consumers: dict[Name, ConsumerSpec] = {}
    """Who holds keys, by name, each with the key versions that are valid now."""
    monitoring: MonitoringSpec | None = None
    """Who reads the models' metrics; absent or {}, the network lets nobody."""
    benchmark: BenchmarkSpec | None = None
    """A comparison of services under the same load; absent or {}, there is none."""
    budget: BudgetSpec | None = None
    """What the stack may cost at most; absent or {}, there is no limit."""


@dataclass(frozen=True)
class StackSecrets:
    """Secret values of a stack; never part of a spec, never shown."""

    seeds: tuple[pulumi.Output[str], ...] = field(repr=False)
    """What API keys are derived from: the current seed and, during a rotation, the previous one."""
    imported_keys: Mapping[str, Mapping[int, pulumi.Output[str]]] = field(default_factory=dict, repr=False)
    """Keys that users import instead, by consumer and version."""


@dataclass(frozen=True)
class Stack:
    """One environment: its name, what it says, its secrets, and where the simulated cluster's kubeconfig lies."""

    name: str
    settings: StackSettings
    secrets: StackSecrets
    simulated_kubeconfig: str
