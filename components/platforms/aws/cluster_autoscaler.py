"""The Cluster Autoscaler of Kubernetes for the node groups of a cluster, with the release of the cluster's Kubernetes version.

Source: kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws (README.md and examples/cluster-autoscaler-autodiscover.yaml),
tag cluster-autoscaler-1.35.2, read 2026-11. EKS has no add-on for it (aws/containers-roadmap#1167, open).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pulumi
import yaml
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking
from pulumi_kubernetes.rbac import v1 as rbac

from components.fields import present
from components.naming import labels, selector
from components.platforms.aws.controller_role import COMPONENT, NAMESPACE, calls_aws, controller_account, controller_pods, token_mount
from components.platforms.aws.iam import Document, document
from components.platforms.aws.node_pool import group_name
from components.platforms.aws.pool_spec import node_groups
from components.pod_parts import container_security
from components.serving.demand import GRACE_MARGIN_SECONDS, PRE_STOP_SECONDS
from images.catalogue import catalogue, default_image

if TYPE_CHECKING:
    from components.platforms.aws.cluster_spec import EksCluster, EksClusterHandle
    from components.platforms.aws.pool_spec import EksPool
    from components.platforms.platform import Sections

NAME = "cluster-autoscaler"
_PRIORITIES = "cluster-autoscaler-priority-expander"
_TAG = "k8s.io/cluster-autoscaler"
_METRICS = 8085
_SHORTEST_TERMINATION = 600
# The version of an existing cluster is not in the stack: the middle one of those that this release supports.
_EXISTING = "1.34"
_READ = ["get", "list", "watch"]
# Without `endpoints`, since leader election uses a Lease, and with the Lease in one namespace.
_CLUSTER_RULES = (
    ("", ["events"], ["create", "patch"]),
    ("", ["pods/eviction"], ["create"]),
    ("", ["pods/status"], ["update"]),
    ("", ["nodes"], [*_READ, "update"]),
    ("", ["namespaces", "pods", "services", "replicationcontrollers", "persistentvolumeclaims", "persistentvolumes"], _READ),
    ("policy", ["poddisruptionbudgets"], _READ),
    ("apps", ["statefulsets", "replicasets", "daemonsets"], _READ),
    ("batch", ["jobs"], _READ),
    ("resource.k8s.io", ["deviceclasses", "resourceslices", "resourceclaims"], _READ),
    ("storage.k8s.io", ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"], _READ),
)


class ClusterAutoscaler(pulumi.ComponentResource):
    """The Cluster Autoscaler, with the AWS role that changes the sizes of the cluster's node groups and of no others.

    `ready` is the Deployment.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster: EksCluster,
        home: EksClusterHandle,
        sections: Sections,
        namespace: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        groups = node_groups(sections)
        super().__init__("inferplan:cluster:ClusterAutoscaler", name, {"spec": {"pools": sorted(groups)}}, opts)
        account, rights = controller_account(
            NAME, _policy(cluster.region, cluster.name), namespace=namespace, home=home, method=cluster.identity, parent=self
        )
        child = pulumi.ResourceOptions(parent=self)
        subject = rbac.SubjectArgsDict(kind="ServiceAccount", name=account.metadata.name, namespace=namespace)
        cluster_role = rbac.ClusterRole(
            NAME,
            metadata=_metadata(),
            rules=[rbac.PolicyRuleArgsDict(api_groups=[group], resources=kinds, verbs=verbs) for group, kinds, verbs in _CLUSTER_RULES],
            opts=child,
        )
        rbac.ClusterRoleBinding(
            NAME, metadata=_metadata(), role_ref=_ref("ClusterRole", cluster_role.metadata.name), subjects=[subject], opts=child
        )
        role = rbac.Role(NAME, metadata=_metadata(namespace), rules=_local_rules(), opts=child)
        rbac.RoleBinding(NAME, metadata=_metadata(namespace), role_ref=_ref("Role", role.metadata.name), subjects=[subject], opts=child)
        priorities = core.ConfigMap(
            _PRIORITIES, metadata=_metadata(namespace, _PRIORITIES), data={"priorities": _priorities(groups)}, opts=child
        )
        networking.NetworkPolicy(NAME, metadata=_metadata(namespace), spec=calls_aws(NAME), opts=child)
        self.ready: pulumi.Resource = apps.Deployment(
            NAME,
            metadata=_metadata(namespace),
            spec=_deployment(cluster, account, termination_seconds=_longest_termination(sections)),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[rights.ready, priorities]),
        )
        self.register_outputs({})


def _metadata(namespace: pulumi.Input[str] | None = None, name: str = NAME) -> meta.ObjectMetaArgsDict:
    return present(meta.ObjectMetaArgsDict(name=name, namespace=namespace, labels=labels(COMPONENT, NAME)))


def _ref(kind: str, name: pulumi.Input[str]) -> rbac.RoleRefArgsDict:
    return rbac.RoleRefArgsDict(api_group="rbac.authorization.k8s.io", kind=kind, name=name)


def _local_rules() -> list[rbac.PolicyRuleArgsDict]:
    """Return the rights in its namespace: its status, its priorities and its Lease."""
    rows: list[tuple[str, str, list[str] | None, list[str]]] = [
        ("", "configmaps", None, ["create", "list", "watch"]),
        ("", "configmaps", ["cluster-autoscaler-status", _PRIORITIES], ["delete", "get", "update", "watch"]),
        ("coordination.k8s.io", "leases", None, ["create"]),
        ("coordination.k8s.io", "leases", [NAME], ["get", "update"]),
    ]
    return [
        present(rbac.PolicyRuleArgsDict(api_groups=[group], resources=[kind], resource_names=names, verbs=verbs))
        for group, kind, names, verbs in rows
    ]


def _policy(region: str, name: str) -> Document:
    """Return the permissions: to describe groups and instance types, and to change the size of the groups that EKS tagged for `name`.

    The account is not in the ARNs, so that a plan shows the whole policy: no role can resize groups of another account.
    """
    groups = ("AutoScalingGroups", "AutoScalingInstances", "LaunchConfigurations", "ScalingActivities")
    describe = [
        *(f"autoscaling:Describe{each}" for each in groups),
        *(f"ec2:Describe{each}" for each in ("Images", "InstanceTypes", "LaunchTemplateVersions")),
    ]
    return document(
        # AWS cannot limit these actions to a resource.
        {"Sid": "Describe", "Effect": "Allow", "Action": describe, "Resource": "*"},
        {
            "Sid": "DescribeEmptyGroups",
            "Effect": "Allow",
            "Action": "eks:DescribeNodegroup",
            "Resource": f"arn:aws:eks:{region}:*:nodegroup/{name}/*/*",
        },
        {
            "Sid": "Resize",
            "Effect": "Allow",
            "Action": ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
            "Resource": f"arn:aws:autoscaling:{region}:*:autoScalingGroup:*:autoScalingGroupName/eks-*",
            "Condition": {"StringEquals": {f"aws:ResourceTag/{_TAG}/{name}": "owned"}},
        },
    )


def _priorities(groups: Mapping[str, EksPool]) -> str:
    """Return the order of node groups: those of a pool's first capacity type first. Groups that match no line are never enlarged."""
    ranked: dict[int, list[str]] = {1: [".*"]}
    for name, pool in groups.items():
        for rank, capacity in enumerate(reversed(pool.capacity_types), start=1):
            # EKS names the Auto Scaling group eks-<node group>-<id>.
            ranked.setdefault(10 * rank, []).append(f"^eks-{group_name(name, capacity)}-")
    return yaml.safe_dump(ranked, sort_keys=True)


def image_of(kubernetes_version: str) -> str:
    """Return the image for a Kubernetes version such as 1.35; of a version without a release, that of the newest one."""
    row = f"{NAME}-{kubernetes_version}"
    return default_image(row if row in catalogue() else [each for each in catalogue() if each.startswith(f"{NAME}-")][-1])


def _arguments(cluster: EksCluster, termination_seconds: int) -> list[str]:
    return [
        "--cloud-provider=aws",
        # EKS tags the Auto Scaling groups of its node groups (EKS user guide, "Simplify node lifecycle with managed node groups", read 2026-11).
        f"--node-group-auto-discovery=asg:tag={_TAG}/enabled,{_TAG}/{cluster.name}",
        f"--namespace={NAMESPACE}",
        "--expander=priority,least-waste",
        "--balance-similar-node-groups",
        # Model servers have emptyDir volumes on every node.
        "--skip-nodes-with-local-storage=false",
        # Only a node without accelerators in use is removed: moving a model means loading it again. The autoscaler does not count Gaudi as a GPU, so
        # the share of cpu and memory counts there; a model with one of eight accelerators requests 11 %.
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
        [_SHORTEST_TERMINATION, *(PRE_STOP_SECONDS + model.drain_seconds + GRACE_MARGIN_SECONDS for model in sections.models.values())]
    )


def _deployment(cluster: EksCluster, account: core.ServiceAccount, *, termination_seconds: int) -> apps.DeploymentSpecArgsDict:
    health = core.HTTPGetActionArgsDict(path="/health-check", port=_METRICS)
    container = core.ContainerArgsDict(
        name=NAME,
        image=image_of(_EXISTING if cluster.create is None else cluster.create.kubernetes_version),
        working_dir="/",
        command=["/cluster-autoscaler"],
        args=_arguments(cluster, termination_seconds),
        # Pods cannot reach the metadata service of the nodes.
        env=[core.EnvVarArgsDict(name="AWS_REGION", value=cluster.region)],
        ports=[core.ContainerPortArgsDict(name="metrics", container_port=_METRICS)],
        resources=core.ResourceRequirementsArgsDict(requests={"cpu": "100m", "memory": "600Mi"}, limits={"memory": "600Mi"}),
        startup_probe=core.ProbeArgsDict(http_get=health, period_seconds=5, timeout_seconds=5, failure_threshold=24),
        liveness_probe=core.ProbeArgsDict(http_get=health, period_seconds=30, timeout_seconds=5, failure_threshold=5),
        readiness_probe=core.ProbeArgsDict(http_get=health, period_seconds=10, timeout_seconds=5),
        security_context=container_security(),
        volume_mounts=[token_mount()],
    )
    return apps.DeploymentSpecArgsDict(
        replicas=1,
        selector=meta.LabelSelectorArgsDict(match_labels=selector(COMPONENT, NAME)),
        strategy=apps.DeploymentStrategyArgsDict(type="Recreate"),
        template=controller_pods(NAME, account, container),
    )
