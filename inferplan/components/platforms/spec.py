"""The platforms: every kind of cluster, and the kinds of pools that clouds add. A cloud is added
here, by its own folder.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, StringConstraints

from inferplan.components.gateway.exposure_spec import Access
from inferplan.components.nodes.pool import Pool
from inferplan.components.platforms.aws.cluster_spec import EksCluster
from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.components.platforms.platform import Cluster, Platform, Sections, no_controller
from inferplan.kube.facts import ClusterFacts

CloudCluster: TypeAlias = EksCluster
CloudPool: TypeAlias = EksPool
Existing = Literal["existing", "none"]


class ExistingCluster(Cluster):
    """An existing cluster, through a context of the user's kubeconfig."""

    provider: Literal["existing"]
    autoscaler: Existing = "none"
    """The autoscaler that adds nodes when pods wait: `existing` (it runs in the cluster) or `none`.
    """
    load_balancer_controller: Existing = "existing"
    """The controller of the gateway's Ingress or load balancer: `existing` (it runs in the cluster)
    or `none`.
    """
    context: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    """A context in the kubeconfig of KUBECONFIG or ~/.kube/config."""

    # The scheduler would assign pods to nodes without a kubelet.
    fake_node_error: ClassVar[str | None] = (
        "Simulated pools are not allowed on a real cluster. Use provider: existing."
    )

    stated: ClassVar[Mapping[str, Any]] = {"context": True}

    @property
    def facts(self) -> ClusterFacts:
        return self.facts_as(ClusterFacts, target=f"context {self.context}")

    def platform(self, sections: Sections, *, stack: str, simulated_kubeconfig: str) -> Platform:
        del sections, stack, simulated_kubeconfig
        return Platform(context=self.context)

    def adds_nodes(self, pool: Pool) -> bool:
        del pool
        return self.autoscaler == "existing"

    def unserved(self, access: Access) -> str | None:
        return (
            None
            if access.controller is None or self.load_balancer_controller == "existing"
            else no_controller(access.controller)
        )


class SimulatedCluster(Cluster):
    """The simulated cluster of rehearsals: a real API server and scheduler on this computer, with
    fake nodes.
    """

    provider: Literal["simulated"]

    is_simulated: ClassVar[bool] = True

    @property
    def facts(self) -> ClusterFacts:
        return self.facts_as(ClusterFacts, target="the simulated cluster")

    def platform(self, sections: Sections, *, stack: str, simulated_kubeconfig: str) -> Platform:
        del sections, stack
        return Platform(kubeconfig=simulated_kubeconfig)


ClusterSpec = Annotated[
    ExistingCluster | CloudCluster | SimulatedCluster, Field(discriminator="provider")
]
