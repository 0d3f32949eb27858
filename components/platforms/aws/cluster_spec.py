"""The settings of an EKS cluster: an existing one, or one to create with its network; and the handle of its live values.

They contain no credentials: the caller's credentials select the AWS account.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from components.nodes.pool import NodeLocation, Pool, Zone
from components.platforms.aws import aws_api
from components.platforms.aws.auto_mode import preferred
from components.platforms.aws.controllers_spec import EksControllers
from components.platforms.aws.pool_spec import EksPool
from components.platforms.platform import Platform, Sections
from components.spec import Spec, SpecError, duplicates

if TYPE_CHECKING:
    import pulumi

_SMALLEST_NETWORK, _LARGEST_NETWORK = 20, 16


def _region(region: str) -> str:
    return aws_api.one_of(region, aws_api.aws_api().regions, "region")


def _kubernetes_version(version: str) -> str:
    oldest, newest = aws_api.OLDEST_KUBERNETES, aws_api.NEWEST_KUBERNETES
    bounds = f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    if not re.fullmatch(r"1\.[0-9]{1,3}", version):
        raise ValueError(f"{version!r} is not a Kubernetes version of EKS, which has no patch number. Use {bounds}.")
    if not oldest <= tuple(int(part) for part in version.split(".")) <= newest:
        raise ValueError(
            f"Kubernetes version {version!r} is not in the range that this release supports on EKS. Use {bounds} (list: aws eks describe-cluster-versions)."
        )
    return version


def _network(cidr: str) -> str:
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError:
        raise ValueError(
            f"{cidr!r} is not an IPv4 network. Use its first address and its prefix length, for example 10.20.0.0/16."
        ) from None
    if not _LARGEST_NETWORK <= network.prefixlen <= _SMALLEST_NETWORK:
        raise ValueError(
            f"{cidr!r} has a prefix length of {network.prefixlen}. A VPC with enough addresses for pods needs /{_LARGEST_NETWORK} to /{_SMALLEST_NETWORK}."
        )
    if not network.is_private:
        raise ValueError(f"{cidr!r} is not a private network. Use one inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16.")
    return cidr


def _public_source(cidr: str) -> str:
    try:
        network = ipaddress.IPv4Network(cidr if "/" in cidr else "")
    except ValueError:
        raise ValueError(f"{cidr!r} is not an IPv4 network. For a single address append /32, for example 198.51.100.7/32.") from None
    if network.prefixlen < 8:
        raise ValueError(f"{cidr!r} admits a large part of the internet to the API server. Use the networks of your users and CI runners.")
    return cidr


def _aws_zone(zone: str) -> str:
    if not aws_api.region_of_zone(zone):
        raise ValueError(f"{zone!r} is not an AWS availability zone. Use its full name, for example us-east-1a.")
    return zone


def _control_plane_zone(zone: str) -> str:
    # CreateCluster answers UnsupportedAvailabilityZoneException for it (eksctl-io/eksctl#817, read 2026-11).
    if zone == "us-east-1e":
        raise ValueError("us-east-1e has no EKS control plane. Use two other zones, for example us-east-1a and us-east-1b.")
    return zone


AwsZone = Annotated[Zone, AfterValidator(_aws_zone)]
ControlPlaneZone = Annotated[AwsZone, AfterValidator(_control_plane_zone)]
Region = Annotated[str, AfterValidator(_region), Field(description="An AWS region with EKS, for example us-east-1.")]
SubnetId = Annotated[str, StringConstraints(pattern=r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$"), Field(description="subnet-0123456789abcdef0")]
PrincipalArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws:iam::[0-9]{12}:(role|user)/[A-Za-z0-9+=,.@_/-]+$"),
    Field(description="The ARN of an IAM role or user: arn:aws:iam::<account>:role/<name>."),
]


class EksCreation(Spec):
    """Settings of a created cluster, with its own VPC unless subnets are set."""

    kubernetes_version: Annotated[str, AfterValidator(_kubernetes_version), Field(json_schema_extra={"pattern": r"^1\.[0-9]{2}$"})]
    """The Kubernetes version, for example '1.34'. Raising it upgrades control plane and nodes in place; EKS rejects lowering it."""
    cidr: Annotated[str, AfterValidator(_network)] = "10.64.0.0/16"
    """The network of the created VPC. Ignored if subnets is set."""
    zones: Annotated[list[ControlPlaneZone], Field(min_length=2, max_length=6)] | None = None
    """At least two zones of the created VPC. Each gets a private and a small public subnet."""
    nat: Literal["single", "perZone"] = "perZone"
    """NAT gateways: one per zone, so that a zone failure does not affect other zones, or a single cheaper one."""
    public_access_cidrs: list[Annotated[str, AfterValidator(_public_source)]] = []
    """Networks that may reach the API server from the internet. Default: none; the API server is private and needs a VPN or a runner in the VPC."""
    admins: Annotated[list[PrincipalArn], Field(min_length=1)]
    """Roles and users with full access. Include the one that runs this stack: creating the cluster grants no access."""
    log_retention_days: Literal[30, 90, 180, 365, 731] = 90
    """Days to keep the logs of the control plane. All five log types are enabled."""
    support: Literal["STANDARD", "EXTENDED"] = "STANDARD"
    """At the end of standard support, STANDARD upgrades the cluster automatically; EXTENDED keeps the version at a higher price."""
    protect: bool = True
    """Protects the cluster and its KMS key from deletion. To delete them, set protect: false and update first."""

    @model_validator(mode="after")
    def _reject_duplicates(self) -> Self:
        for key, values in (("zones", self.zones or []), ("admins", self.admins)):
            if repeated := duplicates(values):
                raise ValueError(f"Duplicate entry in {key}: {', '.join(repeated)}. List each once.")
        return self


class EksCluster(EksControllers):
    """An EKS cluster. Without `create` it is an existing cluster, which is not changed."""

    provider: Literal["eks"]
    name: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$")]
    """The name of the cluster."""
    region: Region
    create: EksCreation | None = None
    subnets: Annotated[dict[AwsZone, SubnetId], Field(min_length=1, max_length=6)] | None = None
    """Existing private subnets by zone. Default: the subnets of the existing cluster, or those of the created VPC."""
    account: Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")] | None = None
    """The AWS account of this stack. Credentials of another account are rejected. Default: any account."""
    identity: Literal["podIdentity", "irsa"] = "podIdentity"
    """How pods get AWS roles: EKS Pod Identity (an existing cluster needs its agent), or IRSA with the cluster's OIDC provider."""
    cni_uses_node_role: bool = True
    """Whether the VPC CNI of an existing cluster uses the permissions of the nodes; false if it has its own role."""
    tags: dict[Annotated[str, StringConstraints(min_length=1, max_length=128)], Annotated[str, StringConstraints(max_length=256)]] = {}
    """Tags of every AWS resource of this stack."""

    cloud: ClassVar[str | None] = "AWS"
    creates_buckets: ClassVar[bool] = True
    fake_node_error: ClassVar[str | None] = "Simulated pools are not allowed on EKS. Use provider: eks or existing."

    def platform(self, sections: Sections, *, stack: str, simulated_kubeconfig: str) -> Platform:
        """Declare the AWS resources of `stack`."""
        del simulated_kubeconfig
        # Only here is pulumi_aws imported: it would cost a stack without AWS a second and 80 MiB.
        from components.platforms.aws import lazy_sdk

        lazy_sdk.install()
        from components.platforms.aws.platform import aws_platform

        return aws_platform(self, sections, stack)

    @property
    def location(self) -> NodeLocation:
        """The region, and the zones in the settings."""
        return NodeLocation(region=self.region, zones=self.zones)

    @property
    def is_created(self) -> bool:
        """True with `create`."""
        return self.create is not None

    @property
    def assigns_pod_identities(self) -> bool:
        """True with EKS Pod Identity."""
        return self.identity == "podIdentity"

    def resolved(self, pool: Pool, *, keeps_models: bool) -> Pool:
        """Return `pool` with its choice between EKS Auto Mode and node groups."""
        if isinstance(pool, EksPool) and pool.nodes is None and self.has_auto_mode:
            return pool.model_copy(update={"nodes": preferred(pool, keeps_models=keeps_models)[0]})
        return pool

    def adds_nodes(self, pool: Pool) -> bool:
        """True in EKS Auto Mode, and for node groups with an autoscaler."""
        return (isinstance(pool, EksPool) and pool.is_auto_mode) or super().adds_nodes(pool)

    def errors(self, sections: Sections) -> Iterator[SpecError]:
        """Check pools, stores and certificates on AWS."""
        from components.platforms.aws.checks import errors

        yield from super().errors(sections)
        yield from errors(self, sections)

    @model_validator(mode="after")
    def _check_network(self) -> Self:
        errors = self._network_errors()
        if errors:
            raise ValueError(" ".join(errors))
        return self

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones in the settings; empty for an existing cluster without subnets."""
        if self.subnets is not None:
            return tuple(self.subnets)
        return tuple(self.create.zones or ()) if self.create is not None else ()

    def _network_errors(self) -> list[str]:
        errors = []
        outside = [zone for zone in self.zones if aws_api.region_of_zone(zone) != self.region]
        if outside:
            errors.append(f"Zone {', '.join(outside)} is not in region {self.region}. Use its zones, for example {self.region}a.")
        if self.create is None:
            return errors
        if (self.subnets is None) == (self.create.zones is None):
            errors.append(
                "A created cluster requires either create.zones, for its own VPC, or existing subnets (zone: id). Set one of them."
            )
        local = [zone for zone in self.zones if zone not in outside and len(zone) > len(self.region) + 1]
        if local:
            errors.append(
                f"{', '.join(local)} is a local zone, which EKS does not support for the control plane. Use for example {self.region}a."
            )
        if self.subnets is not None and len(self.subnets) < 2:
            errors.append(f"subnets has one zone ({self.zones[0]}), but EKS requires two. Add a subnet in another zone.")
        foreign = [arn for arn in self.create.admins if self.account is not None and f"::{self.account}:" not in arn]
        if foreign:
            errors.append(f"create.admins has {foreign[0]}, which is not in account {self.account}. Use principals of that account.")
        return errors


@dataclass(frozen=True, kw_only=True)
class EksClusterHandle:
    """Outputs of an EKS cluster for pools, stores, identities and the Kubernetes provider.

    `subnets` are private subnets by zone, empty if only the cluster's own subnets (`own_subnets`) are known. `before_nodes`
    must exist before a node can join.
    """

    name: pulumi.Input[str]
    region: str
    arn: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    service_cidr: pulumi.Output[str]
    kubernetes_version: pulumi.Output[str]
    security_group: pulumi.Output[str]
    vpc: pulumi.Output[str]
    oidc_issuer: pulumi.Output[str]
    oidc_provider_arn: pulumi.Output[str]
    subnets: Mapping[str, pulumi.Input[str]]
    own_subnets: pulumi.Input[list[str]]
    tags: Mapping[str, str]
    before_nodes: tuple[pulumi.Resource, ...] = field(default=(), repr=False)
