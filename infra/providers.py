"""The explicit providers of a stack: one for each cluster, built once and handed to components as resource options.

It reads no environment: which kubeconfig belongs to the simulated cluster is told by the settings.
"""

from __future__ import annotations

from typing import assert_never

import pulumi
import pulumi_kubernetes as kubernetes

from components.cluster.spec import ClusterSpec, ExistingCluster, SimulatedCluster


def cluster_options(spec: ClusterSpec, *, simulated_kubeconfig: str) -> pulumi.ResourceOptions:
    """Resource options that place a component on the stack's cluster."""
    context = kubeconfig = None
    match spec:
        case ExistingCluster():
            context = spec.context
        case SimulatedCluster():
            kubeconfig = simulated_kubeconfig
        case _:
            assert_never(spec)
    provider = kubernetes.Provider(
        "cluster",
        enable_server_side_apply=True,
        # A Secret or ConfigMap of a fixed name would be deleted before it is made anew: a gap in which no pod can start.
        enable_secret_mutable=True,
        enable_config_map_mutable=True,
        context=context,
        kubeconfig=kubeconfig,
    )
    return pulumi.ResourceOptions(provider=provider)
