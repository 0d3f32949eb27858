"""The contract of a platform: the settings of a cluster (`Cluster`), and the resources of a stack
outside Kubernetes (`Platform`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from inferplan.components.balancers import CONTROLLER, LoadBalancing
from inferplan.components.handles import ClusterTraits, NodeTarget
from inferplan.components.nodes.pool import NodeLocation, Pool
from inferplan.components.spec import Spec
from inferplan.components.storage.fields import Store
from inferplan.documents.errors import SpecError
from inferplan.kube.facts import ClusterFacts

if TYPE_CHECKING:
    import pulumi

    from inferplan.components.benchmark.spec import BenchmarkSpec
    from inferplan.components.gateway.exposure_spec import Access
    from inferplan.components.gateway.spec import GatewaySpec
    from inferplan.components.serving.model_parts import PodModel
    from inferplan.components.storage.model_store import ModelStore


class Sections(Protocol):
    """The sections of a stack file that a platform reads."""

    @property
    def namespace(self) -> str: ...

    @property
    def node_pools(self) -> Mapping[str, Pool]: ...

    @property
    def storage(self) -> Mapping[str, Store]: ...

    @property
    def models(self) -> Mapping[str, PodModel]: ...

    @property
    def gateway(self) -> GatewaySpec | None: ...

    @property
    def benchmark(self) -> BenchmarkSpec | None: ...


@dataclass(frozen=True, kw_only=True)
class StoreSite:
    """The arguments that all stores share: `namespace` is the live namespace, `scope` its name,
    `targets` are the pools, `opts` name the cluster.
    """

    namespace: pulumi.Output[str]
    scope: str
    targets: Mapping[str, NodeTarget]
    opts: pulumi.ResourceOptions


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The cluster of a stack, and the resources that the stack has outside of it. This class is
    that of a cluster without a cloud.

    `context` or `kubeconfig` lead to the cluster. `dns_addresses` are networks of DNS servers
    outside pods. `targets` are the pools that the platform created. `ready` are created before
    everything inside the cluster, and deleted after it.
    """

    context: str | None = None
    kubeconfig: pulumi.Input[str] | None = None
    targets: Mapping[str, NodeTarget] = field(default_factory=dict)
    ready: tuple[pulumi.Resource, ...] = ()
    dns_addresses: tuple[pulumi.Input[str], ...] = ()
    load_balancing: LoadBalancing = CONTROLLER

    def controllers(
        self,
        sections: Sections,
        *,
        seeds: tuple[pulumi.Output[str], ...],
        opts: pulumi.ResourceOptions,
    ) -> tuple[pulumi.Resource, ...]:
        """Install the controllers of the cluster, with the current seed first; return what must be
        deleted after the stack's namespace.
        """
        del sections, seeds, opts
        return ()

    def store(self, name: str, spec: Store, site: StoreSite) -> ModelStore:
        from inferplan.components.storage.model_store import model_store

        return model_store(
            name,
            spec,
            namespace=site.namespace,
            scope=site.scope,
            targets=site.targets,
            opts=site.opts,
        )


def no_controller(controller: str, remedy: str = "you install it") -> str:
    """Return the sentence about a gateway that waits for `controller`."""
    return f"the cluster has no {controller}, so the gateway gets no address until {remedy}"


class Cluster(Spec, ABC):
    """The settings of a cluster, and the questions that other code asks it instead of its
    provider's name.
    """

    provider: str
    is_simulated: ClassVar[bool] = False
    cloud: ClassVar[str | None] = None
    """The name of the cloud that a stack calls, None if it calls none."""
    controllers_namespace: ClassVar[str | None] = None
    """The namespace of the controllers that a stack may install for the cluster, None if it
    installs none.
    """
    creates_buckets: ClassVar[bool] = False
    """True if a store of kind s3 can be created next to the cluster."""
    fake_node_error: ClassVar[str | None] = None
    """Why fake nodes are not allowed; None if they are."""

    @property
    def example_share(self) -> str:
        """A store for preheats on this platform, as a user writes it."""
        return "{kind: nfs, server: nfs.example.com, path: /models}"

    @property
    @abstractmethod
    def facts(self) -> ClusterFacts:
        """The facts of the cluster."""

    @abstractmethod
    def platform(self, sections: Sections, *, stack: str, simulated_kubeconfig: str) -> Platform:
        """Declare the resources of `stack` on this platform."""

    @property
    def location(self) -> NodeLocation:
        return NodeLocation()

    @property
    def is_created(self) -> bool:
        """True if this stack creates the cluster, so that no controllers run in it at first."""
        return False

    @property
    def assigns_pod_identities(self) -> bool:
        """True if pods get credentials of the cloud from their node, without calling its token
        service.
        """
        return False

    @property
    def context_command(self) -> str:
        """The command that writes a context of the cluster to the kubeconfig; "" if only its owner
        knows.
        """
        return ""

    def node_usd_per_hour(self, pool: Pool) -> float | None:  # noqa: ARG002 - clouds with a price list read it
        """Return the list price of a node of `pool`; None without one."""
        return None

    def adds_nodes(self, pool: Pool) -> bool:
        """True if nodes are added to `pool` when pods wait for one. Otherwise it keeps its
        `initial_nodes`.
        """
        del pool
        return False

    def resolved(self, pool: Pool, *, keeps_models: bool) -> Pool:
        """Return `pool` with the defaults that depend on this cluster. `keeps_models`: a store
        keeps models on its nodes.
        """
        del keeps_models
        return pool

    @property
    def autoscaler_remedies(self) -> tuple[str, ...]:
        """The lines of a stack file, each with its condition if it has one, by which nodes are
        added to pools that this stack creates.
        """
        return ()

    def unserved(self, access: Access) -> str | None:
        """Return why nothing in the cluster serves the gateway's `access`, with the remedy; None if
        something does or may.
        """
        del access
        return None

    @property
    def has_other_nodes(self) -> bool:
        """True if there may be nodes for pods without accelerators that are in no pool of the
        stack.
        """
        return not self.is_created

    def notes(self, sections: Sections) -> Iterator[str]:
        """Yield what a person must know before an update reaches the cluster."""
        del sections
        yield from ()

    def errors(self, sections: Sections) -> Iterator[SpecError]:
        """Check that pools and stores can belong to this cluster."""
        facts = ClusterTraits(
            provider=self.provider,
            cloud=self.cloud,
            creates_buckets=self.creates_buckets,
            fake_node_error=self.fake_node_error,
        )
        for section, entries in (("nodePools", sections.node_pools), ("storage", sections.storage)):
            for name, entry in entries.items():
                if (error := entry.cluster_error(facts)) is not None:
                    yield SpecError((section, name, *error.path), error.message)
