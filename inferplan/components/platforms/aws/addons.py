"""The EKS add-ons of a created cluster, with the versions and the configuration of the stack file."""

from __future__ import annotations

import json
from collections.abc import Collection

import pulumi
from pulumi_aws import eks, iam

from inferplan.components.naming import autonamed
from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.creation_spec import AddonSettings, EksCreation
from inferplan.components.platforms.aws.iam import ROLE_NAME, pod_identity_trust
from inferplan.tables import table

_CNI_POLICY = "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"
# The add-ons that nodes need to join.
BEFORE_NODES = ("eks-pod-identity-agent", "vpc-cni", "kube-proxy")
# Strings: the schema of the add-on rejects a boolean (EKS user guide, network policies, read
# 2026-11).
_CONFIGURATION = {"vpc-cni": {"enableNetworkPolicy": "true"}}


class ClusterAddons(pulumi.ComponentResource):
    """The add-ons of a created cluster that run as ordinary pods and become healthy only when nodes
    exist.

    CoreDNS and the node monitoring agent are installed only for node groups (`node_groups`; the
    agent with `accelerators`): nodes of EKS Auto Mode have both built in. The driver of
    EFS or FSx is installed only with a store of that kind (`stores`). It has no role: it mounts what
    exists and creates nothing. `create.addons` names further ones.
    """

    def __init__(
        self,
        name: str,
        *,
        home: EksClusterHandle,
        create: EksCreation,
        stores: Collection[str],
        node_groups: bool,
        accelerators: bool,
        nodes: tuple[pulumi.Resource, ...],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        wanted = {
            "coredns": node_groups,
            "aws-efs-csi-driver": "efs" in stores,
            "aws-fsx-csi-driver": "fsx" in stores,
            "eks-node-monitoring-agent": node_groups and accelerators,
        }
        further = [each for each in create.addons if each not in (*wanted, *BEFORE_NODES)]
        addons = [*(each for each, is_wanted in wanted.items() if is_wanted), *further]
        super().__init__(
            "inferplan:cluster:ClusterAddons", name, {"spec": {"addons": addons}}, opts
        )
        options = pulumi.ResourceOptions(parent=self, depends_on=list(nodes))
        self.ready: tuple[pulumi.Resource, ...] = tuple(
            _addon(
                f"{name}-{each}",
                each,
                create,
                home.name,
                options,
                _role(f"{name}-{each}", each, home, options),
            )
            for each in addons
        )
        self.register_outputs({})


def _role(
    name: str, addon: str, home: EksClusterHandle, options: pulumi.ResourceOptions
) -> list[eks.AddonPodIdentityAssociationArgsDict] | None:
    """Create the role of an add-on that can do nothing without one; None for the others."""
    row = table("components/platforms/aws/addons.toml")["roles"].get(addon)
    if row is None:
        return None
    trust = pod_identity_trust(
        cluster=home.spec_name, namespace=row["namespace"], account=row["service_account"]
    )
    role = iam.Role(
        autonamed(name, ROLE_NAME),
        assume_role_policy=pulumi.Output.json_dumps(trust),
        permissions_boundary=home.boundary,
        opts=options,
    )
    for policy in row["policies"]:
        iam.RolePolicyAttachment(
            f"{name}-{policy.rpartition('/')[2]}",
            role=role.name,
            policy_arn=f"arn:aws:iam::aws:policy/{policy}",
            opts=options,
        )
    return [{"role_arn": role.arn, "service_account": row["service_account"]}]


def addons_before_nodes(
    name: str,
    spec: EksClusterFields,
    create: EksCreation,
    cluster: eks.Cluster,
    child: pulumi.ResourceOptions,
) -> tuple[pulumi.Resource, ...]:
    """Create the network, proxy and identity agent add-ons: DaemonSets that are healthy without
    nodes, and that nodes need to become Ready.
    """
    trust = pod_identity_trust(cluster=spec.name, namespace="kube-system", account="aws-node")
    document, boundary = pulumi.Output.json_dumps(trust), spec.permissions_boundary
    cni = iam.Role(
        autonamed(f"{name}-cni", ROLE_NAME),
        assume_role_policy=document,
        permissions_boundary=boundary,
        opts=child,
    )
    rights = iam.RolePolicyAttachment(
        f"{name}-cni", role=cni.name, policy_arn=_CNI_POLICY, opts=child
    )
    identity: eks.AddonPodIdentityAssociationArgsDict = {
        "role_arn": cni.arn,
        "service_account": "aws-node",
    }
    return (
        _addon(f"{name}-pod-identity-agent", "eks-pod-identity-agent", create, cluster.name, child),
        _addon(f"{name}-vpc-cni", "vpc-cni", create, cluster.name, child, [identity]),
        _addon(f"{name}-kube-proxy", "kube-proxy", create, cluster.name, child),
        rights,
    )


def _addon(
    name: str,
    addon: str,
    create: EksCreation,
    cluster: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
    identity: list[eks.AddonPodIdentityAssociationArgsDict] | None = None,
) -> eks.Addon:
    settings = create.addons.get(addon, AddonSettings())
    configuration = {**settings.configuration, **_CONFIGURATION.get(addon, {})}
    return eks.Addon(
        name,
        addon_name=addon,
        addon_version=settings.version,
        cluster_name=cluster,
        configuration_values=json.dumps(configuration) if configuration else None,
        pod_identity_associations=identity,
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        opts=opts,
    )
