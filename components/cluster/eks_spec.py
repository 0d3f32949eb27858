"""What a user writes about an EKS cluster: one that exists, adopted by its name, or one to create with its network.

It holds no credential and looks nothing up: the AWS account is whichever the caller's own credentials open.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from components.cluster import aws_api
from components.nodes.fields import Zone
from components.spec import Spec

_SMALLEST_NETWORK, _LARGEST_NETWORK = 20, 16


def _region(region: str) -> str:
    return aws_api.one_of(region, aws_api.aws_api().regions, "region")


def _kubernetes_version(version: str) -> str:
    oldest, newest = aws_api.OLDEST_KUBERNETES, aws_api.NEWEST_KUBERNETES
    bounds = f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    if not re.fullmatch(r"1\.[0-9]{1,3}", version):
        raise ValueError(f"{version!r} is no Kubernetes version as EKS writes them, without a patch; use {bounds}")
    if not oldest <= tuple(int(part) for part in version.split(".")) <= newest:
        raise ValueError(
            f"{version!r} is no Kubernetes version that EKS supports as far as this release knows; use {bounds} (aws eks describe-cluster-versions lists them)"
        )
    return version


def _network(cidr: str) -> str:
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError:
        raise ValueError(f"{cidr!r} is no IPv4 network; write its first address and its size, such as 10.20.0.0/16") from None
    if not _LARGEST_NETWORK <= network.prefixlen <= _SMALLEST_NETWORK:
        raise ValueError(
            f"{cidr!r} has a prefix of {network.prefixlen}; a VPC takes /16 to /28, and pods need /{_SMALLEST_NETWORK} at least"
        )
    if not network.is_private:
        raise ValueError(f"{cidr!r} is no private network; use one inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
    return cidr


def _public_source(cidr: str) -> str:
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError:
        raise ValueError(f"{cidr!r} is no IPv4 network; write a single address as 198.51.100.7/32") from None
    if network.prefixlen < 8:
        raise ValueError(f"{cidr!r} lets a large part of the internet at the API server; name the networks of your own people and runners")
    return cidr


Region = Annotated[str, AfterValidator(_region), Field(description="An AWS region that EKS is offered in, such as us-east-1.")]
SubnetId = Annotated[str, StringConstraints(pattern=r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$"), Field(description="subnet-0123456789abcdef0")]
PrincipalArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws:iam::[0-9]{12}:(role|user)/[A-Za-z0-9+=,.@_/-]+$"),
    Field(description="The ARN of an IAM role or user: arn:aws:iam::<account>:role/<name>."),
]


class EksCreation(Spec):
    """The cluster is created, with a network of its own unless subnets are given."""

    kubernetes_version: Annotated[str, AfterValidator(_kubernetes_version), Field(json_schema_extra={"pattern": r"^1\.[0-9]{2}$"})]
    """The Kubernetes version, such as '1.34'; raising it upgrades control plane and nodes in place, lowering it is refused by EKS."""
    cidr: Annotated[str, AfterValidator(_network)] = "10.64.0.0/16"
    """The network of the VPC that is created; of no account where subnets are given."""
    zones: Annotated[list[Zone], Field(min_length=2, max_length=6)] | None = None
    """Zones of the VPC that is created, two at least; each gets a private and a small public subnet."""
    nat: Literal["single", "perZone"] = "perZone"
    """NAT gateways: one in each zone, so that losing a zone cuts no other off, or a single cheaper one."""
    public_access_cidrs: list[Annotated[str, AfterValidator(_public_source)]] = []
    """Networks that may reach the API server from the internet; empty, its address is private and a VPN or runner inside is needed."""
    admins: Annotated[list[PrincipalArn], Field(min_length=1)]
    """Roles and users with full access, whoever runs this stack among them: creating the cluster gives no access by itself."""
    log_retention_days: Literal[30, 90, 180, 365, 731] = 90
    """How long the control plane's logs are kept; all five kinds are written."""
    support: Literal["STANDARD", "EXTENDED"] = "STANDARD"
    """What happens at the end of standard support: STANDARD upgrades by itself, EXTENDED keeps the version and costs more."""
    protect: bool = True
    """Lets no destroy take the cluster or its key; protect: false, followed by an update, is what it takes to delete them."""

    @model_validator(mode="after")
    def _each_is_named_once(self) -> Self:
        for key, values in (("zones", self.zones or []), ("admins", self.admins)):
            twice = sorted({each for each in values if values.count(each) > 1})
            if twice:
                raise ValueError(f"{key} names {', '.join(twice)} more than once; write each once")
        return self


class EksCluster(Spec):
    """An EKS cluster. Without `create` it exists already and is adopted by its name: nothing of it is changed."""

    provider: Literal["eks"]
    name: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$")]
    """The cluster's name in its region."""
    region: Region
    create: EksCreation | None = None
    subnets: Annotated[dict[Zone, SubnetId], Field(min_length=1, max_length=6)] | None = None
    """Private subnets by zone, where they exist. An adopted cluster's own ones serve where this is absent."""
    account: Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")] | None = None
    """The only AWS account that this stack may touch; credentials of another one are refused. Absent: any."""
    identity: Literal["podIdentity", "irsa"] = "podIdentity"
    """How pods get their AWS roles: EKS Pod Identity (needs its agent in an adopted cluster), or IRSA by the cluster's OIDC provider."""
    cni_uses_node_role: bool = True
    """Whether the VPC CNI of an adopted cluster works with the rights of its nodes; false where it has a role of its own."""
    tags: dict[Annotated[str, StringConstraints(min_length=1, max_length=128)], Annotated[str, StringConstraints(max_length=256)]] = {}
    """Tags on every AWS resource of this stack."""

    @model_validator(mode="after")
    def _the_network_is_said_once(self) -> Self:
        faults = list(self._network_faults())
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones that are known before anything is looked up; empty for an adopted cluster whose subnets are not given."""
        if self.subnets is not None:
            return tuple(self.subnets)
        return tuple(self.create.zones or ()) if self.create is not None else ()

    def _network_faults(self) -> list[str]:
        faults = []
        outside = [zone for zone in self.zones if aws_api.region_of_zone(zone) != self.region]
        if outside:
            faults.append(f"zone {', '.join(outside)} is not in region {self.region}; name zones such as {self.region}a")
        if self.create is None:
            return faults
        if (self.subnets is None) == (self.create.zones is None):
            faults.append(
                "a created cluster needs either create.zones, for a VPC of its own, or subnets (zone: id) that exist; write one of them"
            )
        local = [zone for zone in self.zones if zone not in outside and len(zone) > len(self.region) + 1]
        if local:
            faults.append(f"{', '.join(local)} is a local zone, where EKS puts no control plane; name zones such as {self.region}a")
        if self.subnets is not None and len(self.subnets) < 2:
            faults.append(f"subnets names one zone ({self.zones[0]}), and EKS wants two; add a subnet of another zone")
        foreign = [arn for arn in self.create.admins if self.account is not None and f"::{self.account}:" not in arn]
        if foreign:
            faults.append(
                f"create.admins names {foreign[0]}, which is not of account {self.account}; EKS takes principals of its own account"
            )
        return faults
