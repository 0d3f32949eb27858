"""The Cluster Autoscaler of Kubernetes for the node groups of a cluster, with the release of the
cluster's Kubernetes version.

Source: kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws (README.md and
examples/cluster-autoscaler-autodiscover.yaml), tag cluster-autoscaler-1.35.2, read 2026-11. EKS has
no add-on for it (aws/containers-roadmap#1167, open).
"""

from collections.abc import Mapping

import pulumi
import yaml

from inferplan.components.kubernetes import core
from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.cluster_handle import (
    CONTROLLERS_NAMESPACE,
    EksClusterHandle,
)
from inferplan.components.platforms.aws.controller import Controller
from inferplan.components.platforms.aws.iam import Document, allow, document
from inferplan.components.platforms.aws.node_pool import group_name
from inferplan.components.platforms.aws.pool_spec import EksPool, node_groups
from inferplan.components.platforms.platform import Sections
from inferplan.components.serving.demand import GRACE_MARGIN_SECONDS, PRE_STOP_SECONDS
from inferplan.images.catalogue import catalogue, default_image

NAME = "cluster-autoscaler"
_PRIORITIES = "cluster-autoscaler-priority-expander"
_TAG = "k8s.io/cluster-autoscaler"
_METRICS = 8085
_SHORTEST_TERMINATION = 600
# The version of an existing cluster is not in the stack: the middle one of those that this release
# supports.
_EXISTING = "1.34"


class ClusterAutoscaler(pulumi.ComponentResource):
    """The Cluster Autoscaler, with the AWS role that changes the sizes of the cluster's node groups
    and of no others.
    """

    def __init__(
        self,
        cluster: EksClusterFields,
        *,
        home: EksClusterHandle,
        sections: Sections,
        namespace: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        groups = node_groups(sections)
        super().__init__(
            "inferplan:cluster:ClusterAutoscaler", NAME, {"spec": {"pools": sorted(groups)}}, opts
        )
        policy = _policy(cluster.region, cluster.name)
        controller = Controller(
            NAME, policy, namespace=namespace, home=home, method=cluster.identity, parent=self
        )
        controller.grant()
        priorities = core.ConfigMap(
            _PRIORITIES,
            metadata=controller.metadata(_PRIORITIES),
            data={"priorities": _priorities(groups)},
            opts=pulumi.ResourceOptions(parent=self),
        )
        controller.call_aws()
        container = _container(cluster, _longest_termination(sections))
        self.ready: pulumi.Resource = controller.deployment(
            container, after=[priorities], strategy={"type": "Recreate"}
        )
        self.register_outputs({})


def _policy(region: str, name: str) -> Document:
    """Return the permissions: to describe groups and instance types, and to change the size of the
    groups that EKS tagged for `name`.

    The account is not in the ARNs, so that a plan shows the whole policy: no role can resize groups
    of another account.
    """
    groups = (
        "AutoScalingGroups",
        "AutoScalingInstances",
        "LaunchConfigurations",
        "ScalingActivities",
    )
    describe = [
        *(f"autoscaling:Describe{each}" for each in groups),
        *(f"ec2:Describe{each}" for each in ("Images", "InstanceTypes", "LaunchTemplateVersions")),
    ]
    scaled = f"arn:aws:autoscaling:{region}:*:autoScalingGroup:*:autoScalingGroupName/eks-*"
    resize = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    return document(
        # AWS cannot limit these actions to a resource.
        allow("Describe", describe, "*"),
        allow(
            "DescribeEmptyGroups",
            "eks:DescribeNodegroup",
            f"arn:aws:eks:{region}:*:nodegroup/{name}/*/*",
        ),
        allow("Resize", resize, scaled, {f"aws:ResourceTag/{_TAG}/{name}": "owned"}),
    )


def _priorities(groups: Mapping[str, EksPool]) -> str:
    """Return the order of node groups: those of a pool's first capacity type first. Groups that
    match no line are never enlarged.
    """
    ranked: dict[int, list[str]] = {1: [".*"]}
    for name, pool in groups.items():
        for rank, capacity in enumerate(reversed(pool.capacity_types), start=1):
            # EKS names the Auto Scaling group eks-<node group>-<id>.
            ranked.setdefault(10 * rank, []).append(f"^eks-{group_name(name, capacity)}-")
    return yaml.safe_dump(ranked, sort_keys=True)


def image_of(kubernetes_version: str) -> str:
    """Return the image for a Kubernetes version such as 1.35; of a version without a release, that
    of the newest one.
    """
    row = f"{NAME}-{kubernetes_version}"
    return default_image(
        row
        if row in catalogue()
        else [each for each in catalogue() if each.startswith(f"{NAME}-")][-1]
    )


def _arguments(cluster: EksClusterFields, termination_seconds: int) -> list[str]:
    return [
        "--cloud-provider=aws",
        # EKS tags the Auto Scaling groups of its node groups (EKS user guide, "Simplify node
        # lifecycle with managed node groups", read 2026-11).
        f"--node-group-auto-discovery=asg:tag={_TAG}/enabled,{_TAG}/{cluster.name}",
        f"--namespace={CONTROLLERS_NAMESPACE}",
        "--expander=priority,least-waste",
        "--balance-similar-node-groups",
        # Model servers have emptyDir volumes on every node.
        "--skip-nodes-with-local-storage=false",
        # Only a node without accelerators in use is removed: moving a model means loading it again.
        # The autoscaler does not count Gaudi as a GPU, so the share of cpu and memory counts there;
        # a model with one of eight accelerators requests 11 %.
        "--scale-down-gpu-utilization-threshold=0.01",
        "--scale-down-utilization-threshold=0.1",
        "--ignore-daemonsets-utilization",
        "--scale-down-unneeded-time=10m",
        f"--max-graceful-termination-sec={termination_seconds}",
        "--stderrthreshold=info",
    ]


def _longest_termination(sections: Sections) -> int:
    """Return the longest time that a model needs to terminate, at least the autoscaler's default."""
    return max(
        [
            _SHORTEST_TERMINATION,
            *(
                PRE_STOP_SECONDS + model.drain_seconds + GRACE_MARGIN_SECONDS
                for model in sections.models.values()
            ),
        ]
    )


def _container(cluster: EksClusterFields, termination_seconds: int) -> core.ContainerArgsDict:
    health: core.HTTPGetActionArgsDict = {"path": "/health-check", "port": _METRICS}
    return {
        "name": NAME,
        "image": image_of(
            _EXISTING if cluster.create is None else cluster.create.kubernetes_version
        ),
        "command": ["/cluster-autoscaler"],
        "args": _arguments(cluster, termination_seconds),
        # Pods cannot reach the metadata service of the nodes.
        "env": [{"name": "AWS_REGION", "value": cluster.region}],
        "ports": [{"name": "metrics", "container_port": _METRICS}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "600Mi"},
            "limits": {"memory": "600Mi"},
        },
        "startup_probe": {
            "http_get": health,
            "period_seconds": 5,
            "timeout_seconds": 5,
            "failure_threshold": 24,
        },
        "liveness_probe": {
            "http_get": health,
            "period_seconds": 30,
            "timeout_seconds": 5,
            "failure_threshold": 5,
        },
        "readiness_probe": {"http_get": health, "period_seconds": 10, "timeout_seconds": 5},
    }
