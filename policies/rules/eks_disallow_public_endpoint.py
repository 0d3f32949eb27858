"""The cluster's API server is not open to the internet."""

from __future__ import annotations

from policies.addresses import is_everybody
from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.isolation import block_of
from policies.subjects.objects import objects


def _check(cluster: Resource, _: Parameters) -> Findings:
    vpc = cluster.at("vpcConfig")
    if vpc.at("endpointPublicAccess").flag() is not False:
        listed = list(vpc.at("publicAccessCidrs").each())
        if not listed or is_everybody(map(block_of, listed)):
            yield found(vpc.at("endpointPublicAccess"), "opens the API server to the internet")
        if vpc.at("endpointPrivateAccess").flag() is not True:
            yield found(vpc.at("endpointPrivateAccess"), "is not true, so nodes connect to the API server over the internet")


RULE = Rule(
    id="eks-disallow-public-endpoint",
    title="The cluster's API server is not open to the internet",
    severity=Severity.CRITICAL,
    refs=(
        "Security Hub EKS.1",
        "CIS EKS 5.4.1",
        "CKV_AWS_38",
        "CKV_AWS_39",
    ),
    why="With an open endpoint, one stolen token is enough to use the cluster",
    remedy="set vpcConfig.endpointPublicAccess: false, or list the networks that may connect under publicAccessCidrs",
    subject=objects("aws:eks:Cluster"),
    check=_check,
)
