"""The settings of a created EKS cluster and its network, and the types of AWS names that clusters
and pools share.
"""

import ipaddress
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.nodes.pool import Zone
from inferplan.components.platforms.aws import aws_api
from inferplan.components.platforms.aws.principals import admin_arn
from inferplan.components.spec import FieldError, Spec, checked, duplicates, rule
from inferplan.documents.errors import suggestion
from inferplan.tables import table

_SMALLEST_NETWORK, _LARGEST_NETWORK = 20, 16


def _region(region: str) -> str:
    return aws_api.one_of(region, aws_api.aws_api().regions, "region")


def _kubernetes_version(version: str) -> Iterator[str]:
    oldest, newest = aws_api.OLDEST_KUBERNETES, aws_api.NEWEST_KUBERNETES
    bounds = f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    if not re.fullmatch(r"1\.[0-9]{1,3}", version):
        yield (
            f"{version!r} is not a Kubernetes version of EKS, which has no patch number. Use"
            f" {bounds}."
        )
    if not oldest <= tuple(int(part) for part in version.split(".")) <= newest:
        yield (
            f"Kubernetes version {version!r} is not in the range that this release supports on EKS."
            f" Use {bounds} (list: aws eks describe-cluster-versions)."
        )


def _network(cidr: str) -> Iterator[str]:
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError:
        yield (
            f"{cidr!r} is not an IPv4 network. Use its first address and its prefix length, for"
            " example 10.20.0.0/16."
        )
        return
    if not _LARGEST_NETWORK <= network.prefixlen <= _SMALLEST_NETWORK:
        yield (
            f"{cidr!r} has a prefix length of {network.prefixlen}. A VPC with enough addresses for"
            f" pods needs /{_LARGEST_NETWORK} to /{_SMALLEST_NETWORK}."
        )
    if not network.is_private:
        yield (
            f"{cidr!r} is not a private network. Use one inside 10.0.0.0/8, 172.16.0.0/12 or"
            " 192.168.0.0/16."
        )


def _public_source(cidr: str) -> Iterator[str]:
    try:
        network = ipaddress.IPv4Network(cidr if "/" in cidr else "")
    except ValueError:
        yield (
            f"{cidr!r} is not an IPv4 network. For a single address append /32, for example"
            " 198.51.100.7/32."
        )
        return
    if network.prefixlen < 8:
        yield (
            f"{cidr!r} admits a large part of the internet to the API server. Use the networks of"
            " your users and CI runners."
        )


def _aws_zone(zone: str) -> Iterator[str]:
    if not aws_api.region_of_zone(zone):
        yield (
            f"{zone!r} is not an AWS availability zone. Use its full name, for example us-east-1a."
        )


AwsZone = Annotated[Zone, checked(_aws_zone)]
Region = Annotated[
    str,
    AfterValidator(_region),
    Field(description="An AWS region with EKS, for example us-east-1."),
]
PrincipalArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws:iam::[0-9]{12}:(role|user)/[A-Za-z0-9+=,.@_/-]+$"),
    AfterValidator(admin_arn),
    Field(
        description=(
            "The ARN of an IAM role or user, with its path:"
            " arn:aws:iam::<account>:role/<path><name>."
        )
    ),
]


class AddonSettings(Spec):
    """The version and the configuration of an EKS add-on."""

    version: (
        Annotated[str, StringConstraints(pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+-eksbuild\.[0-9]+$")]
        | None
    ) = None
    """The version, for example v1.20.4-eksbuild.2. Default: the one that EKS chooses at creation;
    `inferplan versions` proposes one to pin.
    """
    configuration: dict[str, Any] = {}
    """Values of the add-on's own schema (aws eks describe-addon-configuration). Keys that this
    stack needs, such as enableNetworkPolicy, stay.
    """


class EksCreation(Spec):
    """Settings of a created cluster, with its own VPC unless subnets are set."""

    kubernetes_version: Annotated[
        str, checked(_kubernetes_version), Field(json_schema_extra={"pattern": r"^1\.[0-9]{2}$"})
    ]
    """The Kubernetes version, for example '1.34'. Raising it upgrades control plane and nodes in
    place; EKS rejects lowering it.
    """
    cidr: Annotated[str, checked(_network)] = "10.64.0.0/16"
    """The network of the created VPC. Ignored if subnets is set."""
    zones: Annotated[list[AwsZone], Field(min_length=2, max_length=6)] | None = None
    """At least two zones of the created VPC. Each gets a private and a small public subnet."""
    nat: Literal["single", "perZone"] = "perZone"
    """NAT gateways: one per zone, so that a zone failure does not affect other zones, or a single
    cheaper one.
    """
    public_access_cidrs: list[Annotated[str, checked(_public_source)]] = []
    """Networks that may reach the API server from the internet. With none it is private: commands
    need a VPN, or a runner in the VPC. Required with zones: write [] for a private API server.
    """
    admins: Annotated[list[PrincipalArn], Field(min_length=1)]
    """Roles and users with full access. Include the one that runs this stack: creating the cluster
    grants no access.
    """
    log_retention_days: Literal[30, 90, 180, 365, 731] = 90
    """Days to keep the logs of the control plane. All five log types are enabled."""
    log_group: Literal["create", "existing"] = "create"
    """The log group of the control plane: `existing` leaves one that is there already, with its
    retention, as EKS makes again after a destroy.
    """
    support: Literal["STANDARD", "EXTENDED"] = "STANDARD"
    """At the end of standard support, STANDARD upgrades the cluster automatically; EXTENDED keeps
    the version at a higher price.
    """
    addons: dict[
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}$")], AddonSettings
    ] = {}
    """Settings of the stack's EKS add-ons (vpc-cni, kube-proxy, coredns, ...), and further ones to
    install. Drivers and agents that need a role at AWS get it, or are rejected with the reason.
    """
    protect: bool = True
    """Protects the cluster and its KMS key from deletion. To delete them, set protect: false and
    update first.
    """

    @rule
    def _reject_addons(self) -> Iterator[FieldError]:
        known = table("components/platforms/aws/addons.toml")
        for name in self.addons:
            if reason := known["refused"].get(name):
                yield FieldError(f"{name!r} is not supported. {reason}", "addons", name)
            elif name not in known["names"] and "_" not in name:
                yield FieldError(
                    f"EKS has no add-on {name!r}.{suggestion(name, known['names'])} List:"
                    " aws eks describe-addon-versions. Install anything else by its Helm chart.",
                    "addons",
                    name,
                )

    @rule
    def _reject_duplicates(self) -> Iterator[str]:
        for key, values in (("zones", self.zones or []), ("admins", self.admins)):
            if repeated := duplicates(values):
                yield f"Duplicate entry in {key}: {', '.join(repeated)}. List each once."
