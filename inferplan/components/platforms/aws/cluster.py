"""The EKS cluster of a stack, existing (only looked up) or created, with its handle for the other
AWS components (`home`).
"""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi_aws import cloudwatch, ec2, eks, iam, kms

from inferplan.components.fields import present
from inferplan.components.naming import autonamed
from inferplan.components.platforms.aws.access import administrators, warn_about_access
from inferplan.components.platforms.aws.addons import addons_before_nodes
from inferplan.components.platforms.aws.aws_api import aws_api
from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.creation_spec import EksCreation
from inferplan.components.platforms.aws.iam import ROLE_NAME, service_trust
from inferplan.components.platforms.aws.lookups import look_up, private_subnets
from inferplan.components.platforms.aws.network import EksNetwork, network_name

# EKS user guide, "Amazon EKS Auto Mode cluster IAM role", read 2026-11.
_AUTO_MODE_POLICIES = (
    "AmazonEKSComputePolicy",
    "AmazonEKSBlockStoragePolicy",
    "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSNetworkingPolicy",
)


def adopted_cluster(
    spec: EksClusterFields, *, provider: pulumi.ProviderResource
) -> EksClusterHandle:
    """Return the handle of an existing cluster. Raises pulumi.RunError with the field that names it
    if it does not exist.
    """
    remedy = (
        f"Correct cluster.name or cluster.region ({spec.region}), check the credentials, or add"
        " cluster.create to create the cluster."
    )
    options = pulumi.InvokeOptions(provider=provider)
    token, arguments = "aws:eks/getCluster:getCluster", {"name": spec.name}
    lookup = look_up(
        token, arguments, eks.GetClusterResult, key="cluster.name", remedy=remedy, options=options
    )
    cluster = pulumi.Output.from_input(lookup)
    return EksClusterHandle(
        **_common_fields(spec, cluster),
        name=spec.name,
        certificate_authority=cluster.certificate_authorities[0].data,
        service_cidr=cluster.kubernetes_network_configs[0].service_ipv4_cidr,
        vpc=cluster.vpc_config.vpc_id,
        subnets=_existing_subnets(spec, options),
        own_subnets=cluster.vpc_config.apply(lambda network: private_subnets(network, options)),
    )


def _common_fields(
    spec: EksClusterFields, cluster: eks.Cluster | pulumi.Output[eks.GetClusterResult]
) -> dict[str, Any]:
    """Return the fields of the handle that an existing and a created cluster have in common."""
    issuer = cluster.identities[0].oidcs[0].issuer
    return {
        "spec_name": spec.name,
        "region": spec.region,
        "account": spec.known_account or cluster.arn.apply(lambda arn: arn.split(":")[4]),
        "arn": cluster.arn,
        "endpoint": cluster.endpoint,
        "kubernetes_version": cluster.version,
        "security_group": cluster.vpc_config.cluster_security_group_id,
        "oidc_issuer": issuer.apply(_without_scheme),
        # The ARN of an OIDC provider consists of the account and the issuer, so it needs no lookup.
        "oidc_provider_arn": (
            pulumi.Output.all(cluster.arn, issuer).apply(
                lambda resolved: (
                    f"arn:aws:iam::{resolved[0].split(':')[4]}:oidc-provider/{_without_scheme(resolved[1])}"
                )
            )
        ),
        "tags": spec.tags,
        "boundary": spec.permissions_boundary,
    }


def _without_scheme(issuer: str) -> str:
    return issuer.removeprefix("https://")


class CreatedCluster(pulumi.ComponentResource):
    """A cluster with its network, KMS key, logs and the add-ons that nodes need to join; `home` is
    its handle.

    `node_groups` is false if all nodes are of EKS Auto Mode, which has these add-ons built in.
    `access` are the access entries of administrators: they are created before everything inside the
    cluster and deleted after it, or a destroy would lock out its caller.
    """

    def __init__(
        self,
        name: str,
        spec: EksClusterFields,
        create: EksCreation,
        *,
        node_groups: bool,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:cluster:CreatedCluster", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        protected = pulumi.ResourceOptions(parent=self, protect=create.protect)
        network = (
            None
            if spec.subnets
            else EksNetwork(
                network_name(name), create, zones=spec.zones, region=spec.region, opts=child
            )
        )
        lookup = pulumi.InvokeOptions(parent=self)
        subnets = network.private if network is not None else _existing_subnets(spec, lookup)
        description = f"Secrets of the EKS cluster {spec.name}"
        key = kms.Key(
            name,
            description=description,
            enable_key_rotation=True,
            deletion_window_in_days=30,
            opts=protected,
        )
        role, rights = _role(name, spec, child)
        # EKS would create the log group itself, without retention, and a destroy would leave it.
        logs: list[pulumi.Resource] = []
        if create.log_group == "create":
            group = f"/aws/eks/{spec.name}/cluster"
            logs.append(
                cloudwatch.LogGroup(
                    name, name=group, retention_in_days=create.log_retention_days, opts=child
                )
            )
        # Without its permissions EKS cannot delete its network interfaces; the log group must exist
        # first.
        after = pulumi.ResourceOptions.merge(
            protected, pulumi.ResourceOptions(depends_on=[*rights, *logs])
        )
        cluster = _cluster(
            name, spec, create, role=role, key=key, subnets=list(subnets.values()), opts=after
        )
        self.access: tuple[pulumi.Resource, ...] = administrators(
            name, create.admins, cluster.name, opts=child
        )
        pulumi.Output.from_input(warn_about_access(create.admins, lookup))
        issuer = cluster.identities[0].oidcs[0].issuer
        irsa = {}
        if spec.identity == "irsa":
            provider = iam.OpenIdConnectProvider(
                f"{name}-oidc", url=issuer, client_id_lists=["sts.amazonaws.com"], opts=child
            )
            irsa = {"oidc_provider_arn": provider.arn}
        addons = addons_before_nodes(name, spec, create, cluster, child) if node_groups else ()
        self.home = EksClusterHandle(
            **(_common_fields(spec, cluster) | irsa),
            name=cluster.name,
            certificate_authority=cluster.certificate_authority.data,
            service_cidr=cluster.kubernetes_network_config.service_ipv4_cidr,
            vpc=network.vpc if network is not None else cluster.vpc_config.vpc_id,
            subnets=subnets,
            own_subnets=[],
            before_nodes=(*addons, *(network.routes if network is not None else ())),
        )
        self.register_outputs({"name": cluster.name, "endpoint": cluster.endpoint})


def _role(
    name: str, spec: EksClusterFields, opts: pulumi.ResourceOptions
) -> tuple[iam.Role, list[iam.RolePolicyAttachment]]:
    """The role of the cluster, and what gives it its rights."""
    trust = service_trust("eks.amazonaws.com", tags_session=spec.has_auto_mode)
    role = iam.Role(
        autonamed(name, ROLE_NAME),
        assume_role_policy=pulumi.Output.json_dumps(trust),
        permissions_boundary=spec.permissions_boundary,
        opts=opts,
    )
    policies = {name: "AmazonEKSClusterPolicy"}
    if spec.has_auto_mode:
        policies |= {f"{name}-{policy}": policy for policy in _AUTO_MODE_POLICIES}
    rights = [
        iam.RolePolicyAttachment(
            right, role=role.name, policy_arn=f"arn:aws:iam::aws:policy/{policy}", opts=opts
        )
        for right, policy in policies.items()
    ]
    return role, rights


def _existing_subnets(
    spec: EksClusterFields, options: pulumi.InvokeOptions
) -> dict[str, pulumi.Output[str]]:
    return {
        zone: pulumi.Output.from_input(_existing_subnet(zone, subnet, options))
        for zone, subnet in (spec.subnets or {}).items()
    }


async def _existing_subnet(zone: str, subnet: str, options: pulumi.InvokeOptions) -> str:
    """Return `subnet`. Raises pulumi.RunError if it is not in `zone`: nodes of a capacity block
    would wait forever in another zone.
    """
    key = f"cluster.subnets.{zone}"
    remedy = "Correct it. Check the cluster's region and account."
    token, arguments = "aws:ec2/getSubnet:getSubnet", {"id": subnet}
    result = await look_up(
        token, arguments, ec2.GetSubnetResult, key=key, remedy=remedy, options=options
    )
    if result.availability_zone not in (None, zone):
        raise pulumi.RunError(
            f"{key}: {subnet!r} is in {result.availability_zone}. Use a subnet in {zone}."
        )
    return subnet


def _cluster(
    name: str,
    spec: EksClusterFields,
    create: EksCreation,
    *,
    role: iam.Role,
    key: kms.Key,
    subnets: list[pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> eks.Cluster:
    public = create.public_access_cidrs
    network: eks.ClusterVpcConfigArgsDict = {
        "subnet_ids": subnets,
        "endpoint_private_access": True,
        "endpoint_public_access": bool(public),
        "public_access_cidrs": list(public) or None,
    }
    auto_mode: dict[str, Any] = {
        "compute_config": {"enabled": True},
        "storage_config": {"block_storage": {"enabled": True}},
        "kubernetes_network_config": {"elastic_load_balancing": {"enabled": True}},
    }
    return eks.Cluster(
        name,
        name=spec.name,
        version=create.kubernetes_version,
        role_arn=role.arn,
        enabled_cluster_log_types=list(aws_api().log_types),
        encryption_config={"provider": {"key_arn": key.arn}, "resources": ["secrets"]},
        vpc_config=present(network),
        access_config={
            "authentication_mode": "API",
            "bootstrap_cluster_creator_admin_permissions": False,
        },
        upgrade_policy={"support_type": create.support},
        # The add-ons are declared below with their settings; EKS would install its defaults first.
        # Auto Mode requires it.
        bootstrap_self_managed_addons=False,
        # EKS accepts the three capabilities of Auto Mode only together (EKS API reference,
        # CreateCluster, read 2026-11). Without built-in node pools there is no nodeRoleArn: the
        # NodeClasses of the pools name their role (terraform-aws-modules/eks 21, main.tf, read
        # 2026-11).
        **(auto_mode if spec.has_auto_mode else {}),
        opts=opts,
    )
