"""The EKS cluster of a stack, existing or created, with its handle for the other AWS components (`home`).

An existing cluster is only looked up: its add-ons, logs and access entries are not changed.
"""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi_aws import cloudwatch, ec2, eks, iam, kms

from components.naming import autonamed
from components.platforms.aws.access import administrators, warn_about_access
from components.platforms.aws.addons import addons_before_nodes
from components.platforms.aws.aws_api import aws_api
from components.platforms.aws.cluster_spec import EksCluster, EksClusterHandle, EksCreation
from components.platforms.aws.iam import ROLE_NAME, service_trust
from components.platforms.aws.lookups import look_up
from components.platforms.aws.network import EksNetwork, network_name

_POLICY = "arn:aws:iam::aws:policy"
# EKS user guide, "Amazon EKS Auto Mode cluster IAM role", read 2026-11.
_AUTO_MODE_POLICIES = (
    "AmazonEKSComputePolicy",
    "AmazonEKSBlockStoragePolicy",
    "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSNetworkingPolicy",
)


def adopted_cluster(spec: EksCluster, *, provider: pulumi.ProviderResource) -> EksClusterHandle:
    """Return the handle of an existing cluster. Raises pulumi.RunError with the field that names it if it does not exist."""
    remedy = f"Correct cluster.name or cluster.region ({spec.region}), check the credentials, or add cluster.create to create the cluster."
    options = pulumi.InvokeOptions(provider=provider)
    lookup = look_up(
        "aws:eks/getCluster:getCluster",
        {"name": spec.name},
        eks.GetClusterResult,
        key="cluster.name",
        remedy=remedy,
        options=options,
    )
    cluster = pulumi.Output.from_input(lookup)
    network = cluster.apply(lambda result: result.vpc_config)
    issuer = cluster.apply(lambda result: result.identities[0].oidcs[0].issuer)
    return EksClusterHandle(
        name=spec.name,
        region=spec.region,
        arn=cluster.apply(lambda result: result.arn),
        endpoint=cluster.apply(lambda result: result.endpoint),
        certificate_authority=cluster.apply(lambda result: result.certificate_authorities[0].data),
        service_cidr=cluster.apply(lambda result: result.kubernetes_network_configs[0].service_ipv4_cidr),
        kubernetes_version=cluster.apply(lambda result: result.version),
        security_group=network.apply(lambda vpc: vpc.cluster_security_group_id),
        vpc=network.apply(lambda vpc: vpc.vpc_id),
        oidc_issuer=issuer.apply(_without_scheme),
        oidc_provider_arn=pulumi.Output.all(cluster.apply(lambda result: result.arn), issuer).apply(
            lambda arn_and_issuer: _provider_arn(*arn_and_issuer)
        ),
        subnets=_existing_subnets(spec, options),
        own_subnets=network.apply(lambda vpc: sorted(vpc.subnet_ids)),
        tags=spec.tags,
    )


class CreatedCluster(pulumi.ComponentResource):
    """A cluster with its network, KMS key, logs and the add-ons that nodes need to join; `home` is its handle.

    `node_groups` is false if all nodes are of EKS Auto Mode, which has these add-ons built in.
    `access` are the access entries of administrators: they are created before everything inside the cluster and deleted after it, or
    a destroy would lock out its caller.
    """

    def __init__(
        self, name: str, spec: EksCluster, create: EksCreation, *, node_groups: bool, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("inferplan:cluster:CreatedCluster", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        protected = pulumi.ResourceOptions(parent=self, protect=create.protect)
        network = None if spec.subnets else EksNetwork(network_name(name), create, zones=spec.zones, region=spec.region, opts=child)
        lookup = pulumi.InvokeOptions(parent=self)
        subnets = network.private if network is not None else _existing_subnets(spec, lookup)
        key = kms.Key(
            name,
            description=f"Secrets of the EKS cluster {spec.name}",
            enable_key_rotation=True,
            deletion_window_in_days=30,
            opts=protected,
        )
        trust = service_trust("eks.amazonaws.com", tags_session=spec.has_auto_mode)
        role = iam.Role(autonamed(name, ROLE_NAME), assume_role_policy=pulumi.Output.json_dumps(trust), opts=child)
        rights = [iam.RolePolicyAttachment(name, role=role.name, policy_arn=f"{_POLICY}/AmazonEKSClusterPolicy", opts=child)]
        rights += [
            iam.RolePolicyAttachment(f"{name}-{policy}", role=role.name, policy_arn=f"{_POLICY}/{policy}", opts=child)
            for policy in (_AUTO_MODE_POLICIES if spec.has_auto_mode else ())
        ]
        # EKS would create the log group itself, without retention, and a destroy would leave it.
        logs = cloudwatch.LogGroup(name, name=f"/aws/eks/{spec.name}/cluster", retention_in_days=create.log_retention_days, opts=child)
        cluster = eks.Cluster(
            name,
            args=_cluster(spec, create, role=role, key=key, subnets=list(subnets.values())),
            # Without its permissions EKS cannot delete its network interfaces; the log group must exist first.
            opts=pulumi.ResourceOptions.merge(protected, pulumi.ResourceOptions(depends_on=[*rights, logs])),
        )
        self.access: tuple[pulumi.Resource, ...] = administrators(name, create.admins, cluster.name, opts=child)
        pulumi.Output.from_input(warn_about_access(create.admins, lookup))
        issuer = cluster.identities[0].oidcs[0].issuer
        oidc_provider_arn = pulumi.Output.all(cluster.arn, issuer).apply(lambda arn_and_issuer: _provider_arn(*arn_and_issuer))
        if spec.identity == "irsa":
            oidc_provider_arn = iam.OpenIdConnectProvider(f"{name}-oidc", url=issuer, client_id_lists=["sts.amazonaws.com"], opts=child).arn
        addons = addons_before_nodes(name, spec, create, cluster, child) if node_groups else ()
        self.home = EksClusterHandle(
            name=cluster.name,
            region=spec.region,
            arn=cluster.arn,
            endpoint=cluster.endpoint,
            certificate_authority=cluster.certificate_authority.data,
            service_cidr=cluster.kubernetes_network_config.service_ipv4_cidr,
            kubernetes_version=cluster.version,
            security_group=cluster.vpc_config.cluster_security_group_id,
            vpc=network.vpc if network is not None else cluster.vpc_config.vpc_id,
            oidc_issuer=issuer.apply(_without_scheme),
            oidc_provider_arn=oidc_provider_arn,
            subnets=subnets,
            own_subnets=[],
            tags=spec.tags,
            before_nodes=(*addons, *(network.routes if network is not None else ())),
        )
        self.register_outputs({"name": cluster.name, "endpoint": cluster.endpoint})


def _existing_subnets(spec: EksCluster, options: pulumi.InvokeOptions) -> dict[str, pulumi.Output[str]]:
    return {zone: pulumi.Output.from_input(_existing_subnet(zone, subnet, options)) for zone, subnet in (spec.subnets or {}).items()}


async def _existing_subnet(zone: str, subnet: str, options: pulumi.InvokeOptions) -> str:
    """Return `subnet`. Raises pulumi.RunError if it is not in `zone`: nodes of a capacity block would wait forever in another zone."""
    key = f"cluster.subnets.{zone}"
    remedy = "Correct it. Check the cluster's region and account."
    result = await look_up("aws:ec2/getSubnet:getSubnet", {"id": subnet}, ec2.GetSubnetResult, key=key, remedy=remedy, options=options)
    if result.availability_zone not in (None, zone):
        raise pulumi.RunError(f"{key}: {subnet!r} is in {result.availability_zone}. Use a subnet in {zone}.")
    return subnet


def _cluster(spec: EksCluster, create: EksCreation, *, role: iam.Role, key: kms.Key, subnets: list[pulumi.Input[str]]) -> eks.ClusterArgs:
    public = create.public_access_cidrs
    return eks.ClusterArgs(
        name=spec.name,
        version=create.kubernetes_version,
        role_arn=role.arn,
        enabled_cluster_log_types=list(aws_api().log_types),
        encryption_config=eks.ClusterEncryptionConfigArgs(
            provider=eks.ClusterEncryptionConfigProviderArgs(key_arn=key.arn), resources=["secrets"]
        ),
        vpc_config=eks.ClusterVpcConfigArgs(
            subnet_ids=subnets,
            endpoint_private_access=True,
            endpoint_public_access=bool(public),
            public_access_cidrs=list(public) or None,
        ),
        access_config=eks.ClusterAccessConfigArgs(authentication_mode="API", bootstrap_cluster_creator_admin_permissions=False),
        upgrade_policy=eks.ClusterUpgradePolicyArgs(support_type=create.support),
        # The add-ons are declared below with their settings; EKS would install its defaults first. Auto Mode requires it.
        bootstrap_self_managed_addons=False,
        **(_auto_mode() if spec.has_auto_mode else {}),
    )


def _auto_mode() -> dict[str, Any]:
    """Return the three capabilities of EKS Auto Mode, which EKS accepts only together (EKS API reference, CreateCluster, read 2026-11).

    Without built-in node pools there is no nodeRoleArn: the NodeClasses of the pools name their role (terraform-aws-modules/eks 21,
    main.tf, read 2026-11).
    """
    return {
        "compute_config": eks.ClusterComputeConfigArgs(enabled=True),
        "storage_config": eks.ClusterStorageConfigArgs(block_storage=eks.ClusterStorageConfigBlockStorageArgs(enabled=True)),
        "kubernetes_network_config": eks.ClusterKubernetesNetworkConfigArgs(
            elastic_load_balancing=eks.ClusterKubernetesNetworkConfigElasticLoadBalancingArgs(enabled=True)
        ),
    }


def _without_scheme(issuer: str) -> str:
    return issuer.removeprefix("https://")


def _provider_arn(cluster_arn: str, issuer: str) -> str:
    # The ARN of an OIDC provider consists of the account and the issuer, so it needs no lookup.
    return f"arn:aws:iam::{cluster_arn.split(':')[4]}:oidc-provider/{_without_scheme(issuer)}"
