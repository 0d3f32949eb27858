"""The settings of an EKS cluster: an existing one, or one to create with its network."""

import re
from abc import ABC
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from inferplan.components.gateway.exposure_spec import Access
from inferplan.components.nodes.pool import NodeLocation, Pool
from inferplan.components.platforms.aws import aws_api
from inferplan.components.platforms.aws.auto_mode import preferred
from inferplan.components.platforms.aws.cluster_handle import CONTROLLERS_NAMESPACE
from inferplan.components.platforms.aws.creation_spec import AwsZone, EksCreation, Region
from inferplan.components.platforms.aws.pool_parts import SubnetId
from inferplan.components.platforms.aws.pool_spec import EksPool, node_groups
from inferplan.components.platforms.platform import Cluster, Sections, no_controller
from inferplan.components.spec import FieldError, checked, rule
from inferplan.documents.errors import KeyPath
from inferplan.kube.facts import ClusterFacts

Controller = Literal["install", "existing", "none"]
MOST_TAGS = 40
"""AWS allows 50 tags for a resource; the stack, EKS and autoscaling add up to 10 of their own."""
_TAG = re.compile(r"[^\W_]|[ _.:/=+@-]")


def _tag_text(text: str) -> Iterator[str]:
    if others := "".join(dict.fromkeys(each for each in text if not _TAG.fullmatch(each))):
        yield (
            f"{text!r} has {others!r}, which tags of IAM and EKS cannot have. Use letters, digits,"
            " spaces and _ . : / = + - @."
        )


def _tag_key(key: str) -> Iterator[str]:
    yield from _tag_text(key)
    if key.lower().startswith("aws:"):
        yield f"{key!r} begins with aws:, which is for AWS itself. Use another prefix."


class EksClusterFields(Cluster, ABC):
    """The settings of an EKS cluster, and what follows from them."""

    provider: Literal["eks"]
    auto_mode: bool | None = None
    """True if EKS Auto Mode runs nodes, load balancers and block storage. Default: true for a
    created cluster. On an existing cluster, true means that it has Auto Mode already; false is the
    default.
    """
    autoscaler: Controller | None = None
    """The autoscaler that adds nodes to node groups: `install` (the Cluster Autoscaler, by this
    stack), `existing` (it runs in the cluster) or `none`. Default: install for a created cluster,
    none for an existing one.
    """
    load_balancer_controller: Controller | None = None
    """The AWS Load Balancer Controller: `install` (by this stack), `existing` (it runs in the
    cluster) or `none`. Default: install for a created cluster whose gateway needs it, existing for
    an existing cluster.
    """
    name: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$")]
    """The name of the cluster."""
    region: Region
    create: EksCreation | None = None
    subnets: Annotated[dict[AwsZone, SubnetId], Field(min_length=1, max_length=6)] | None = None
    """Existing private subnets by zone. Default: the subnets of the existing cluster, or those of
    the created VPC.
    """
    account: Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")] | None = None
    """The AWS account of this stack. Credentials of another account are rejected. Default: any
    account.
    """
    identity: Literal["podIdentity", "irsa"] = "podIdentity"
    """The way in which pods get AWS roles: EKS Pod Identity (an existing cluster needs its agent),
    or IRSA with the cluster's OIDC provider.
    """
    permissions_boundary: (
        Annotated[
            str, StringConstraints(pattern=r"^arn:aws:iam::[0-9]{12}:policy/[A-Za-z0-9+=,.@_/-]+$")
        ]
        | None
    ) = None
    """The permissions boundary of every role that the stack creates, for example that of `inferplan
    doctor --boundary`. Default: none.
    """
    cni_uses_node_role: bool = True
    """True if the VPC CNI of an existing cluster uses the permissions of the nodes; false if it has
    its own role.
    """
    tags: Annotated[
        dict[
            Annotated[str, StringConstraints(min_length=1, max_length=128), checked(_tag_key)],
            Annotated[str, StringConstraints(max_length=256), checked(_tag_text)],
        ],
        Field(max_length=MOST_TAGS),
    ] = {}
    """Tags of every AWS resource of this stack."""

    # Tags, protection and logs show at the resources.
    stated: ClassVar[Mapping[str, Any]] = {
        "create": {
            "kubernetes_version",
            "support",
            "zones",
            "public_access_cidrs",
            "admins",
            "log_retention_days",
            "log_group",
            "protect",
        },
        **dict.fromkeys(("name", "region", "tags", "permissions_boundary"), True),
    }
    cloud: ClassVar[str | None] = "AWS"
    controllers_namespace: ClassVar[str | None] = CONTROLLERS_NAMESPACE
    creates_buckets: ClassVar[bool] = True
    fake_node_error: ClassVar[str | None] = (
        "Simulated pools are not allowed on EKS. Use provider: eks or existing."
    )

    @property
    def facts(self) -> ClusterFacts:
        made = self.create
        names = () if made is None else ("kubernetes_version", "support", "admins")
        networks = () if made is None else made.public_access_cidrs
        created = {name: getattr(made, name) for name in names}
        return self.facts_as(
            ClusterFacts,
            target=f"{self.region}/{self.name}",
            zones=self.zones,
            api_networks=networks,
            **created,
        )

    @property
    def example_share(self) -> str:
        """An EFS file system. Any node of an existing cluster may run a preheat, and its subnets
        have to be known.
        """
        if self.is_created:
            return "{kind: efs}"
        return "{kind: efs, openTo: cluster}" + (
            "" if self.zones else f" (with cluster.subnets: {{{self.region}a: subnet-...}})"
        )

    @property
    def location(self) -> NodeLocation:
        return NodeLocation(region=self.region, zones=self.zones)

    @property
    def known_account(self) -> str | None:
        """The account of the stack, if the file says it: as `account`, or for IRSA as the account
        of all administrators.
        """
        admins = [] if self.create is None or self.identity != "irsa" else self.create.admins
        accounts = {arn.split(":")[4] for arn in admins}
        return self.account or (accounts.pop() if len(accounts) == 1 else None)

    @property
    def is_created(self) -> bool:
        return self.create is not None

    @property
    def context_command(self) -> str:
        return (
            f"aws eks update-kubeconfig --region {self.region} --name {self.name} --alias"
            f" {self.name}"
        )

    @property
    def assigns_pod_identities(self) -> bool:
        return self.identity == "podIdentity"

    def resolved(self, pool: Pool, *, keeps_models: bool) -> Pool:
        if isinstance(pool, EksPool) and pool.nodes is None and self.has_auto_mode:
            return pool.model_copy(update={"nodes": preferred(pool, keeps_models=keeps_models)[0]})
        return pool

    @property
    def has_auto_mode(self) -> bool:
        return self.is_created if self.auto_mode is None else self.auto_mode

    @property
    def balances_in_auto_mode(self) -> bool:
        """True if EKS Auto Mode creates the load balancers, not the AWS Load Balancer Controller."""
        return self.has_auto_mode and self.load_balancer_controller in (None, "none")

    @property
    def autoscaler_choice(self) -> Controller:
        return self.autoscaler or ("install" if self.is_created else "none")

    @property
    def autoscaler_remedies(self) -> tuple[str, ...]:
        existing = () if self.is_created else ("autoscaler: existing (if one runs in the cluster)",)
        return (*existing, "autoscaler: install")

    def load_balancer_choice(self, access: Access) -> Controller:
        """Return the AWS Load Balancer Controller for the gateway's `access`, defaults applied. EKS
        Auto Mode needs none.
        """
        default = (
            "existing"
            if not self.is_created
            else "none"
            if access.balancer is None or self.has_auto_mode
            else "install"
        )
        return self.load_balancer_controller or default

    def installs_load_balancers(self, access: Access | None) -> bool:
        """True if this stack installs the AWS Load Balancer Controller: as the user wrote, else for
        the gateway's load balancer.
        """
        return (
            access is not None
            and access.balancer is not None
            and self.load_balancer_choice(access) == "install"
        )

    def unserved(self, access: Access) -> str | None:
        """Return the missing controller. EKS Auto Mode and an installed controller serve the load
        balancers of AWS only.
        """
        choice = self.load_balancer_choice(access)
        if access.controller is None or choice == "existing":
            return None
        if access.balancer is None:
            return no_controller(access.controller, "you install it (inferplan docs aws-cluster)")
        if choice == "install" or self.has_auto_mode:
            return None
        return no_controller(access.controller, "cluster has loadBalancerController: install")

    def installs_autoscaler(self, sections: Sections) -> bool:
        """True if this stack installs the Cluster Autoscaler: as the user wrote, else for node
        groups that can grow.
        """
        groups = node_groups(sections).values()
        return self.autoscaler_choice == "install" and any(
            self.autoscaler or pool.size.max > pool.size.min for pool in groups
        )

    def adds_nodes(self, pool: Pool) -> bool:
        return (isinstance(pool, EksPool) and pool.is_auto_mode) or (
            pool.creates_nodes and self.autoscaler_choice != "none"
        )

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones in the settings; empty for an existing cluster without subnets."""
        if self.subnets is not None:
            return tuple(self.subnets)
        return tuple(self.create.zones or ()) if self.create is not None else ()

    @rule
    def _check_network(self) -> Iterator[FieldError]:
        outside = [zone for zone in self.zones if aws_api.region_of_zone(zone) != self.region]
        errors = [
            *self._zone_errors(outside),
            *([] if self.create is None else self._creation_errors(self.create, outside)),
        ]
        if errors:
            path: KeyPath = ()
            if outside:
                path = (
                    ("subnets", outside[0])
                    if self.subnets is not None
                    else ("create", "zones", self.zones.index(outside[0]))
                )
            yield FieldError(" ".join(errors), *path)

    def _zone_errors(self, outside: list[str]) -> Iterator[str]:
        if outside:
            subject = (
                f"Zone {outside[0]} is" if len(outside) == 1 else f"Zones {', '.join(outside)} are"
            )
            yield (
                f"{subject} not in region {self.region}. Use zones of that region, for example"
                f" {self.region}a, or change region."
            )

        by_subnet = {subnet: zone for zone, subnet in (self.subnets or {}).items()}
        for zone, subnet in (self.subnets or {}).items():
            if by_subnet[subnet] != zone:
                yield (
                    f"subnets has {subnet} for {zone} and {by_subnet[subnet]}, and a subnet is in"
                    " one zone. Use a subnet of each zone."
                )

    def _creation_errors(self, create: EksCreation, outside: list[str]) -> Iterator[str]:
        if (self.subnets is None) == (create.zones is None):
            yield (
                "A created cluster requires either create.zones, for its own VPC, or existing"
                " subnets (zone: id). Set one of them."
            )
        local = [
            zone for zone in self.zones if zone not in outside and len(zone) > len(self.region) + 1
        ]
        if local:
            yield (
                f"{', '.join(local)} is a local zone, which EKS does not support for the control"
                f" plane. Use for example {self.region}a."
            )
        if self.subnets is not None and len(self.subnets) < 2:
            yield (
                f"subnets has one zone ({self.zones[0]}), but EKS requires two. Add a subnet in"
                " another zone."
            )
        foreign = [
            arn
            for arn in create.admins
            if self.account is not None and f"::{self.account}:" not in arn
        ]
        if foreign:
            yield (
                f"create.admins has {foreign[0]}, which is not in account {self.account}. Use"
                " principals of that account."
            )
