"""The explicit providers of a stack: one for each cluster and cloud, built once and handed to components as resource options.

It reads no environment: which kubeconfig belongs to the simulated cluster is in the settings. No credential passes
through here; those of AWS are the caller's own, and the cluster's token is requested again each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import pulumi
import pulumi_kubernetes as kubernetes

from components.platforms.aws.cluster_spec import EksCluster
from components.platforms.spec import ClusterSpec, ExistingCluster, SimulatedCluster

if TYPE_CHECKING:
    from infra.aws import AwsPlatform
    from stackfile.stack import StackSettings


def aws_provider(spec: EksCluster, *, stack: str) -> pulumi.ProviderResource:
    """The AWS provider of `stack`'s region, which refuses any account but the stack's own where that is named."""
    import pulumi_aws as aws

    tags = aws.ProviderDefaultTagsArgs(tags={**spec.tags, "inferplan.dev/stack": stack})
    accounts = None if spec.account is None else [spec.account]
    return aws.Provider("aws", region=spec.region, allowed_account_ids=accounts, default_tags=tags)


def aws_platform_of(spec: StackSettings, stack: str) -> AwsPlatform | None:
    """Declare what the stack has on AWS; None for a cluster outside EKS."""
    if spec.cluster.provider != "eks":
        return None
    # Only here is pulumi_aws loaded: it would cost a stack without AWS a second and 80 MiB.
    from components.platforms.aws import lazy_sdk

    lazy_sdk.install()
    from infra.aws import aws_platform

    return aws_platform(spec.cluster, spec, aws_provider(spec.cluster, stack=stack))


def cluster_options(spec: ClusterSpec, *, simulated_kubeconfig: str, platform: AwsPlatform | None = None) -> pulumi.ResourceOptions:
    """Resource options that place a component on the stack's cluster. `platform` has the cluster of provider eks."""
    context: str | None = None
    kubeconfig: pulumi.Input[str] | None = None
    after: list[pulumi.Resource] = []
    match spec:
        case ExistingCluster():
            context = spec.context
        case SimulatedCluster():
            kubeconfig = simulated_kubeconfig
        case EksCluster():
            if platform is None:
                raise ValueError(f"cluster {spec.name} is one of EKS, and its platform is missing")
            from components.platforms.aws.kubeconfig import kubeconfig as asking_for_tokens

            kubeconfig = asking_for_tokens(platform.home)
            # Everything inside the cluster needs nodes to come up and to go: without this edge a destroy takes the nodes away first,
            # and an object that waits for a controller to clean up (an Ingress, a volume) waits forever.
            after = list(platform.ready)
        case _:
            assert_never(spec)
    provider = kubernetes.Provider(
        "cluster",
        enable_server_side_apply=True,
        # A Secret or ConfigMap of a fixed name would be deleted before it is created again: a gap in which no pod can start.
        enable_secret_mutable=True,
        enable_config_map_mutable=True,
        # After `kubectl scale` or `kubectl edit` every update would end in a conflict of field managers. The stack file decides about
        # the fields that it declares; fields that it does not declare keep the values that others set.
        enable_patch_force=True,
        context=context,
        kubeconfig=kubeconfig,
        opts=pulumi.ResourceOptions(depends_on=after) if after else None,
    )
    return pulumi.ResourceOptions(provider=provider)
