"""Which Kubernetes cluster a stack acts on: one that exists, one of EKS, or the simulated one.

It names a cluster and never holds credentials: those stay in the user's kubeconfig.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from components.cluster.eks_spec import EksCluster
from components.spec import Spec


class ExistingCluster(Spec):
    """A cluster that is already there, reached through a context of the user's kubeconfig."""

    provider: Literal["existing"]
    context: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    """The context in the kubeconfig that KUBECONFIG or ~/.kube/config names."""


class SimulatedCluster(Spec):
    """The rehearsal's own control plane on this machine: real API server and scheduler, pretend nodes."""

    provider: Literal["simulated"]


ClusterSpec = Annotated[ExistingCluster | EksCluster | SimulatedCluster, Field(discriminator="provider")]
