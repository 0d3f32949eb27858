"""A pool of EC2 machines: a launch template, a managed node group for each capacity type, and the
identity of its nodes at AWS.

It sets no desired size after the first day: the cluster autoscaler decides the number of nodes. It
installs no
driver and no device plugin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_aws import ec2, eks, iam

from inferplan.components.handles import NodeTarget
from inferplan.components.naming import autonamed
from inferplan.components.platforms.aws import launch_template as template
from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.iam import service_trust
from inferplan.components.platforms.aws.lookups import look_up_if_permitted
from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.kube.names import EFA_RESOURCE, EPHEMERAL_STORAGE, HUGEPAGES

GROUP_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
AUTO_MODE_POLICIES = ("AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryPullOnly")
"""The permissions of nodes of EKS Auto Mode (EKS user guide, "Amazon EKS Auto Mode node IAM role",
read 2026-11).
"""
_GROUP_NAME = 63  # the limit of EKS for the name of a node group
CNI_POLICY = "AmazonEKS_CNI_Policy"
"""The permissions of the VPC CNI, for nodes of clusters whose CNI uses the role of the nodes."""
_TEMPLATE_TAG = "k8s.io/cluster-autoscaler/node-template/resources"
_EFFECTS = {
    "NoSchedule": "NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
}


class NodeIdentity(pulumi.ComponentResource):
    """The identity of the nodes of all pools: a role that joins the cluster and pulls images, and a
    security group.

    The group opens nothing; a file system that admits only these nodes refers to it. `policies` are
    AWS's managed policies of the role.
    """

    def __init__(
        self,
        name: str,
        *,
        home: EksClusterHandle,
        policies: tuple[str, ...],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            "inferplan:nodes:NodeIdentity", name, {"spec": {"policies": list(policies)}}, opts
        )
        child = pulumi.ResourceOptions(parent=self)
        trust = pulumi.Output.json_dumps(service_trust("ec2.amazonaws.com"))
        role = iam.Role(
            name, assume_role_policy=trust, permissions_boundary=home.boundary, opts=child
        )
        self.arn: pulumi.Output[str] = role.arn
        self.name: pulumi.Output[str] = role.name
        # A node group whose role lost its rights cannot drain its nodes when it is deleted, so
        # groups depend on these.
        self.ready: tuple[pulumi.Resource, ...] = tuple(
            iam.RolePolicyAttachment(
                f"{name}-{policy}",
                role=role.name,
                policy_arn=f"arn:aws:iam::aws:policy/{policy}",
                opts=child,
            )
            for policy in policies
        )
        group = ec2.SecurityGroup(
            f"{name}-pools",
            description=(
                "Nodes of the pools of this stack, for others to name. Opens nothing itself."
            ),
            vpc_id=home.vpc,
            ingress=[],
            # EC2 would add a rule to everywhere; the cluster's security group decides what nodes
            # reach.
            egress=[],
            tags={**home.tags, "Name": f"inferplan-{name}"},
            opts=child,
        )
        self.group: pulumi.Output[str] = group.id
        self.register_outputs({"arn": role.arn, "group": group.id})


class EksNodePool(pulumi.ComponentResource):
    """One pool of equal EC2 instances; `target` is its handle for pods.

    `created` is true in a cluster of this stack. `images` is how many different images its models
    run, from which the root volume is sized. `directories` are made on each node at boot.
    """

    def __init__(
        self,
        name: str,
        spec: EksPool,
        *,
        home: EksClusterHandle,
        identity: NodeIdentity,
        created: bool = False,
        images: int = 1,
        directories: Sequence[str] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:nodes:EksNodePool", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.target: NodeTarget = spec.target(name)
        efa = [_efa_group(name, home, child).id] if spec.efa else []
        image = None
        if spec.ami_id is not None:
            image = pulumi.Output.from_input(
                _image(name, spec.ami_id, pulumi.InvokeOptions(parent=self))
            )
        launch = template.launch_template(
            name,
            spec,
            home=home,
            groups=[home.security_group, identity.group, *(spec.security_groups or ()), *efa],
            image=image,
            images=images,
            directories=directories,
            opts=child,
        )
        repair = True if created and spec.auto_repair is None else spec.auto_repair
        options = pulumi.ResourceOptions(
            parent=self,
            # Nodes join only with the CNI, the routes and their rights in place, and none of their
            # arguments says so.
            depends_on=[*home.before_nodes, *identity.ready],
            # The cluster autoscaler sets it; an update must not end nodes that serve.
            ignore_changes=["scalingConfig.desiredSize"],
        )
        self.ready: tuple[pulumi.Resource, ...] = tuple(
            _node_group(
                name,
                spec,
                each,
                home=home,
                identity=identity,
                launch=launch,
                repair=repair,
                opts=options,
            )
            for each in spec.capacity_types
        )
        self.register_outputs(
            {
                "nodes": self.target.nodes,
                "accelerators": self.target.nodes * self.target.capacity.accelerators,
            }
        )


def group_name(pool: str, capacity: str) -> str:
    """Return the name of the node group of `pool` with this capacity type, to which Pulumi adds a
    random suffix.
    """
    return autonamed(f"{pool}-{capacity.lower().replace('_', '-')}", _GROUP_NAME)


async def _image(pool: str, ami: str, look: pulumi.InvokeOptions) -> str:
    """Return `ami` if EC2 has it: a group of nodes without an image fails only after 15 minutes."""
    query = {"filters": [{"name": "image-id", "values": [ami]}], "includeDeprecated": True}
    remedy = (
        "correct it, copy the image to the cluster's region, or have it shared with this account"
    )
    await look_up_if_permitted(
        "aws:ec2/getAmi:getAmi",
        query,
        name=ami,
        key=f"nodePools.{pool}.amiId",
        remedy=remedy,
        options=look,
    )
    return ami


def _node_group(
    name: str,
    spec: EksPool,
    capacity: str,
    *,
    home: EksClusterHandle,
    identity: NodeIdentity,
    launch: ec2.LaunchTemplate,
    repair: bool | None,
    opts: pulumi.ResourceOptions,
) -> eks.NodeGroup:
    target = spec.target(name)
    least, first_day = (
        (spec.size.min, spec.size.initial) if capacity == spec.capacity_types[-1] else (0, 0)
    )
    taints: list[eks.NodeGroupTaintArgsDict] = [
        {"key": taint.key, "value": taint.value, "effect": _EFFECTS[taint.effect]}
        for taint in target.taints
    ]
    # Without the field EKS does not repair; an existing group keeps what its owner set.
    repairs: dict[str, Any] = {} if repair is None else {"node_repair_config": {"enabled": repair}}
    return eks.NodeGroup(
        group_name(name, capacity),
        cluster_name=home.name,
        node_role_arn=identity.arn,
        subnet_ids=_subnets(spec, home),
        ami_type=spec.ami,
        # Without it, EKS uses the cluster's version once: nodes would not be upgraded with the
        # cluster.
        # A custom image has a version, and EKS rejects another one.
        version=None if spec.ami == "CUSTOM" else home.kubernetes_version,
        capacity_type=capacity,
        instance_types=None if spec.is_block else list(spec.machines),
        labels={**spec.node_labels, **target.node_selector},
        taints=taints or None,
        release_version=spec.release_version,
        scaling_config={"min_size": least, "max_size": spec.size.max, "desired_size": first_day},
        update_config={
            "max_unavailable": spec.update.max_unavailable,
            "update_strategy": spec.update_strategy,
        },
        force_update_version=spec.update.force,
        launch_template={"id": launch.id, "version": launch.latest_version.apply(str)},
        tags=_from_zero(spec, target),
        opts=opts,
        **repairs,
    )


def _from_zero(spec: EksPool, target: NodeTarget) -> dict[str, str]:
    """Return tags for the cluster autoscaler: resources of a node of an empty group that it does
    not derive from the instance type.

    It knows cpu, memory and NVIDIA's accelerators by the type, labels and taints by the group, and
    nothing else: a pod that requests Gaudi accelerators would wait forever (kubernetes/autoscaler,
    cloudprovider/aws/aws_manager.go, read 2026-11).
    """
    offered = {EPHEMERAL_STORAGE: target.capacity.ephemeral_storage_bytes}
    if target.accelerator is not None and not target.accelerator.vendor.autoscaler_label:
        offered[target.accelerator.resource] = target.capacity.accelerators
    offered[HUGEPAGES] = spec.hugepages_bytes
    offered[EFA_RESOURCE] = target.capacity.efa
    return {
        f"{_TEMPLATE_TAG}/{resource}": str(amount) for resource, amount in offered.items() if amount
    }


def _subnets(
    spec: EksPool, home: EksClusterHandle
) -> pulumi.Input[list[str]] | list[pulumi.Input[str]]:
    if spec.subnets is not None:
        return list(spec.subnets)
    if spec.only_zones is None:
        return list(home.subnets.values()) or home.own_subnets
    return [home.subnets[zone] for zone in spec.only_zones]


def _efa_group(
    name: str, home: EksClusterHandle, child: pulumi.ResourceOptions
) -> ec2.SecurityGroup:
    """Create a group that admits all traffic among the pool's nodes: EFA requires rules that refer
    to the group itself (EC2 user guide, EFA, read 2026-11).
    """
    within: ec2.SecurityGroupIngressArgsDict = {
        "description": "EFA",
        "protocol": "-1",
        "from_port": 0,
        "to_port": 0,
        "self": True,
    }
    return ec2.SecurityGroup(
        f"{name}-efa",
        description=f"EFA traffic among the nodes of pool {name}",
        vpc_id=home.vpc,
        ingress=[within],
        egress=[{**within}],
        opts=child,
    )
