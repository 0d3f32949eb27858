"""The settings of an EKS cluster: an existing one, or one to create with its network; and the handle of its live values.

They contain no credentials: the caller's credentials select the AWS account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from components.nodes.pool import NodeLocation, Pool
from components.platforms.aws import aws_api, offerings
from components.platforms.aws.auto_mode import preferred
from components.platforms.aws.controllers_spec import CONTROLLERS_NAMESPACE, EksControllers
from components.platforms.aws.creation_spec import AwsZone, EksCreation, Region, SubnetId
from components.platforms.aws.pool_spec import EksPool, node_groups
from components.platforms.platform import Platform, Sections
from components.spec import FieldError, KeyPath, SpecError
from components.storage.volume_spec import NodeDiskStoreSpec

if TYPE_CHECKING:
    import pulumi


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
    controllers_namespace: ClassVar[str | None] = CONTROLLERS_NAMESPACE
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
    def example_share(self) -> str:
        """An EFS file system. Any node of an existing cluster may run a preheat, and its subnets have to be known."""
        if self.is_created:
            return "{kind: efs}"
        return "{kind: efs, openTo: cluster}" + ("" if self.zones else f" (with cluster.subnets: {{{self.region}a: subnet-...}})")

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

    def installs_autoscaler(self, sections: Sections) -> bool:
        """True if this stack installs the Cluster Autoscaler: as the user wrote, else for node groups that can grow."""
        groups = node_groups(sections).values()
        return self.autoscaler_choice == "install" and any(self.autoscaler or pool.size.max > pool.size.min for pool in groups)

    def adds_nodes(self, pool: Pool) -> bool:
        """True in EKS Auto Mode, and for node groups with an autoscaler."""
        return (isinstance(pool, EksPool) and pool.is_auto_mode) or super().adds_nodes(pool)

    def notes(self, sections: Sections) -> Iterator[str]:
        """Yield how to reach a private API server, why pools stay node groups, and which may be in zones without their instance types."""
        if self.create is not None and not self.create.public_access_cidrs:
            yield (
                "cluster: the API server of the new cluster is private. Run up, status and kubectl on a machine that reaches the addresses of "
                "its VPC (VPN, peering, or a runner in it); elsewhere they time out after the cluster exists. To open it to some networks, "
                "set create.publicAccessCidrs."
            )
        if self.autoscaler is not None and sections.node_pools and not node_groups(sections):
            yield f"cluster.autoscaler: {self.autoscaler} has no effect, because EKS Auto Mode adds the nodes of every pool. Remove it."
        keepers = {store.pool for store in sections.storage.values() if isinstance(store, NodeDiskStoreSpec)}
        for name, pool in sections.node_pools.items():
            if isinstance(pool, EksPool) and self.has_auto_mode and not pool.is_auto_mode:
                reason = preferred(pool, keeps_models=name in keepers)[1]
                yield f"nodePools.{name} is a managed node group, not part of EKS Auto Mode: {reason or 'nodes is nodeGroup'}."
            if isinstance(pool, EksPool) and pool.capacity_reservation is None:
                yield from (
                    f"nodePools.{name}: {doubt}" for doubt in offerings.doubts(pool.machines, self.region, pool.zones or self.zones)
                )

    def errors(self, sections: Sections) -> Iterator[SpecError]:
        """Check pools, stores and certificates on AWS."""
        from components.platforms.aws.checks import errors

        yield from super().errors(sections)
        yield from errors(self, sections)

    @model_validator(mode="after")
    def _check_network(self) -> Self:
        errors = self._network_errors()
        if errors:
            raise FieldError(" ".join(errors), *self._path_of_first(self._outside_zones))
        return self

    @property
    def _outside_zones(self) -> list[str]:
        return [zone for zone in self.zones if aws_api.region_of_zone(zone) != self.region]

    def _path_of_first(self, zones: list[str]) -> KeyPath:
        if not zones:
            return ()
        return ("create", "zones", self.zones.index(zones[0])) if self.subnets is None else ("subnets", zones[0])

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones in the settings; empty for an existing cluster without subnets."""
        if self.subnets is not None:
            return tuple(self.subnets)
        return tuple(self.create.zones or ()) if self.create is not None else ()

    def _network_errors(self) -> list[str]:
        errors = []
        outside = self._outside_zones
        if outside:
            subject = f"Zone {outside[0]} is" if len(outside) == 1 else f"Zones {', '.join(outside)} are"
            errors.append(f"{subject} not in region {self.region}. Use zones of that region, for example {self.region}a, or change region.")
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
