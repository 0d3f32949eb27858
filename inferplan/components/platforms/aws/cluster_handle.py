"""The handle of an EKS cluster: its live values, for everything that is declared next to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pulumi

CONTROLLERS_NAMESPACE = "cluster-controllers"


@dataclass(frozen=True, kw_only=True)
class EksClusterHandle:
    """Outputs of an EKS cluster for pools, stores, identities and the Kubernetes provider.

    `spec_name` is the name in the stack file. `subnets` are private subnets by zone, empty if only
    the cluster's own subnets (`own_subnets`) are known. `before_nodes` must exist before a node can
    join.
    """

    name: pulumi.Input[str]
    spec_name: str
    region: str
    account: pulumi.Input[str]
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
    boundary: str | None = None
    before_nodes: tuple[pulumi.Resource, ...] = field(default=(), repr=False)
