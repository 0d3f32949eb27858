"""The Kubernetes provider of a stack's cluster. No credential passes through here: a kubeconfig
contains a command or a context.
"""

import pulumi
from pulumi_kubernetes import Provider

from inferplan.components.platforms.platform import Platform


def cluster_options(platform: Platform) -> pulumi.ResourceOptions:
    """Return resource options that put a component into the cluster of `platform`."""
    provider = Provider(
        "cluster",
        enable_server_side_apply=True,
        # A Secret or ConfigMap of a fixed name would be deleted before it is created again: a gap
        # in which no pod can start.
        enable_secret_mutable=True,
        enable_config_map_mutable=True,
        # Without this, every update after `kubectl scale` or `kubectl edit` would fail with a field
        # manager conflict. The stack file owns the fields that it declares; fields that it does not
        # declare keep the values that others set.
        enable_patch_force=True,
        context=platform.context,
        kubeconfig=platform.kubeconfig,
        opts=pulumi.ResourceOptions(depends_on=list(platform.ready)) if platform.ready else None,
    )
    return pulumi.ResourceOptions(provider=provider)
