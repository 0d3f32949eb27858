"""The Kubernetes cluster of a stack: an existing one, one on EKS, or the simulated cluster.

The settings contain no credentials: those are in the user's kubeconfig.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from components.platforms.aws.cluster_spec import EksCluster
from components.spec import Spec


class ExistingCluster(Spec):
    """An existing cluster, through a context of the user's kubeconfig."""

    provider: Literal["existing"]
    context: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    """A context in the kubeconfig of KUBECONFIG or ~/.kube/config."""


class SimulatedCluster(Spec):
    """The simulated cluster of rehearsals: a real API server and scheduler on this computer, with fake nodes."""

    provider: Literal["simulated"]


ClusterSpec = Annotated[ExistingCluster | EksCluster | SimulatedCluster, Field(discriminator="provider")]
