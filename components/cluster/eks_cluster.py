"""The EKS cluster of a stack, adopted by its name or created, and what it lends to everything on AWS (`home`).

An adopted cluster is only looked up: no add-on, log or access entry of it is touched.
"""

from __future__ import annotations

import json

import pulumi
from pulumi_aws import cloudwatch, ec2, eks, iam, kms

from components.cluster.aws_api import aws_api
from components.cluster.eks_access import administrators, warn_stranger
from components.cluster.eks_network import EksNetwork
from components.cluster.eks_spec import EksCluster, EksCreation
from components.handles import EksClusterHandle
from components.identity.policies import ROLE_NAME, pod_identity_trust, service_trust
from components.lookups import look_up
from components.naming import autonamed

_POLICY = "arn:aws:iam::aws:policy"


def adopted_cluster(spec: EksCluster, *, provider: pulumi.ProviderResource) -> EksClusterHandle:
    """The home of pools and stores in a cluster that exists. A missing one is reported with the key that names it."""
    remedy = (
        f"correct cluster.name or cluster.region ({spec.region}), check whose credentials these are, or add cluster.create to create it"
    )
    options = pulumi.InvokeOptions(provider=provider)
    asked = look_up(
        "aws:eks/getCluster:getCluster",
        {"name": spec.name},
        eks.GetClusterResult,
        key="cluster.name",
        remedy=remedy,
        options=options,
    )
    found = pulumi.Output.from_input(asked)
    network = found.apply(lambda known: known.vpc_config)
    issuer = found.apply(lambda known: known.identities[0].oidcs[0].issuer)
    return EksClusterHandle(
        name=spec.name,
        region=spec.region,
        arn=found.apply(lambda known: known.arn),
        endpoint=found.apply(lambda known: known.endpoint),
        certificate_authority=found.apply(lambda known: known.certificate_authorities[0].data),
        service_cidr=found.apply(lambda known: known.kubernetes_network_configs[0].service_ipv4_cidr),
        kubernetes_version=found.apply(lambda known: known.version),
        security_group=network.apply(lambda known: known.cluster_security_group_id),
        vpc=network.apply(lambda known: known.vpc_id),
        oidc_issuer=issuer.apply(_without_scheme),
        oidc_provider_arn=pulumi.Output.all(found.apply(lambda known: known.arn), issuer).apply(lambda known: _provider_arn(*known)),
        subnets=_given_subnets(spec, options),
        own_subnets=network.apply(lambda known: sorted(known.subnet_ids)),
        tags=spec.tags,
    )


class CreatedCluster(pulumi.ComponentResource):
    """A cluster with its network, key, logs and the add-ons that nodes need to join; `home` lends it.

    `access` is what lets people at the API server: it comes before everything inside the cluster and goes after all of that, or
    a destroy would lock out the one who runs it.
    """

    def __init__(self, name: str, spec: EksCluster, create: EksCreation, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("inferplan:cluster:CreatedCluster", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        guarded = pulumi.ResourceOptions(parent=self, protect=create.protect)
        network = None if spec.subnets else EksNetwork(f"{name}-network", create, zones=spec.zones, region=spec.region, opts=child)
        asking = pulumi.InvokeOptions(parent=self)
        subnets = network.private if network is not None else _given_subnets(spec, asking)
        key = kms.Key(
            name,
            description=f"Secrets of the EKS cluster {spec.name}",
            enable_key_rotation=True,
            deletion_window_in_days=30,
            opts=guarded,
        )
        role = iam.Role(
            autonamed(name, ROLE_NAME), assume_role_policy=pulumi.Output.json_dumps(service_trust("eks.amazonaws.com")), opts=child
        )
        rights = iam.RolePolicyAttachment(name, role=role.name, policy_arn=f"{_POLICY}/AmazonEKSClusterPolicy", opts=child)
        # EKS would make the log group itself, kept for ever and left behind by a destroy.
        logs = cloudwatch.LogGroup(name, name=f"/aws/eks/{spec.name}/cluster", retention_in_days=create.log_retention_days, opts=child)
        cluster = eks.Cluster(
            name,
            args=_cluster(spec, create, role=role, key=key, subnets=list(subnets.values())),
            # Without its rights EKS cannot take its network interfaces back when it is deleted; a log group must be there first.
            opts=pulumi.ResourceOptions.merge(guarded, pulumi.ResourceOptions(depends_on=[rights, logs])),
        )
        self.access: tuple[pulumi.Resource, ...] = administrators(name, create.admins, cluster.name, opts=child)
        pulumi.Output.from_input(warn_stranger(create.admins, asking))
        issuer = cluster.identities[0].oidcs[0].issuer
        oidc_provider_arn = pulumi.Output.all(cluster.arn, issuer).apply(lambda known: _provider_arn(*known))
        if spec.identity == "irsa":
            oidc_provider_arn = iam.OpenIdConnectProvider(f"{name}-oidc", url=issuer, client_id_lists=["sts.amazonaws.com"], opts=child).arn
        addons = _addons_before_nodes(name, spec, cluster, child)
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


class ClusterAddons(pulumi.ComponentResource):
    """The add-ons of a created cluster that run as ordinary pods, and so become healthy only once there are nodes.

    The EFS driver comes only with a store that needs it. It has no role: files are mounted by an access point, and nothing
    here asks it to make one.
    """

    def __init__(
        self,
        name: str,
        *,
        home: EksClusterHandle,
        efs: bool,
        nodes: tuple[pulumi.Resource, ...],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        wanted = ["coredns", *(["aws-efs-csi-driver"] if efs else [])]
        super().__init__("inferplan:cluster:ClusterAddons", name, {"spec": {"addons": wanted}}, opts)
        self.ready: tuple[pulumi.Resource, ...] = tuple(
            _addon(f"{name}-{each}", each, home.name, pulumi.ResourceOptions(parent=self, depends_on=list(nodes))) for each in wanted
        )
        self.register_outputs({})


def _given_subnets(spec: EksCluster, options: pulumi.InvokeOptions) -> dict[str, pulumi.Output[str]]:
    return {zone: pulumi.Output.from_input(_given_subnet(zone, subnet, options)) for zone, subnet in (spec.subnets or {}).items()}


async def _given_subnet(zone: str, subnet: str, options: pulumi.InvokeOptions) -> str:
    """`subnet`, once it is known to be there and in `zone`: nodes of a capacity block would wait for ever in another one."""
    key = f"cluster.subnets.{zone}"
    remedy = "correct it, or look in the cluster's region and account"
    found = await look_up("aws:ec2/getSubnet:getSubnet", {"id": subnet}, ec2.GetSubnetResult, key=key, remedy=remedy, options=options)
    if found.availability_zone not in (None, zone):
        raise pulumi.RunError(f"{key}: {subnet!r} is in {found.availability_zone}; name a subnet of {zone}")
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
        # The add-ons are declared below, with settings of ours; EKS would install its defaults first.
        bootstrap_self_managed_addons=False,
    )


def _addons_before_nodes(name: str, spec: EksCluster, cluster: eks.Cluster, child: pulumi.ResourceOptions) -> tuple[pulumi.Resource, ...]:
    """Network, proxy and identity agent: DaemonSets, healthy without a node, and a node is not Ready without them."""
    trust = pod_identity_trust(cluster=spec.name, namespace="kube-system", account="aws-node")
    cni = iam.Role(autonamed(f"{name}-cni", ROLE_NAME), assume_role_policy=pulumi.Output.json_dumps(trust), opts=child)
    rights = iam.RolePolicyAttachment(f"{name}-cni", role=cni.name, policy_arn=f"{_POLICY}/AmazonEKS_CNI_Policy", opts=child)
    agent = _addon(f"{name}-pod-identity-agent", "eks-pod-identity-agent", cluster.name, child)
    identity = [eks.AddonPodIdentityAssociationArgs(role_arn=cni.arn, service_account="aws-node")]
    # The value is a string: as a boolean the add-on's schema refuses it (EKS user guide, network policies, read 2026-11).
    settings = json.dumps({"enableNetworkPolicy": "true"})
    network = _addon(f"{name}-vpc-cni", "vpc-cni", cluster.name, child, settings=settings, identity=identity)
    return (agent, network, _addon(f"{name}-kube-proxy", "kube-proxy", cluster.name, child), rights)


def _addon(
    name: str,
    addon: str,
    cluster: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
    *,
    settings: str | None = None,
    identity: list[eks.AddonPodIdentityAssociationArgs] | None = None,
) -> eks.Addon:
    return eks.Addon(
        name,
        addon_name=addon,
        cluster_name=cluster,
        configuration_values=settings,
        pod_identity_associations=identity,
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        opts=opts,
    )


def _without_scheme(issuer: str) -> str:
    return issuer.removeprefix("https://")


def _provider_arn(cluster_arn: str, issuer: str) -> str:
    # IAM's OIDC providers are named by their issuer, so the ARN follows from the cluster's account without a look-up.
    return f"arn:aws:iam::{cluster_arn.split(':')[4]}:oidc-provider/{_without_scheme(issuer)}"
