"""The API server of the cluster is not for everybody."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(cluster: Resource, _: Parameters) -> Findings:
    network = cluster.at("vpcConfig")
    open_to = network.at("publicAccessCidrs").texts() or ["0.0.0.0/0"]
    if network.at("endpointPublicAccess").flag() is not False and any(block in ("0.0.0.0/0", "::/0") for block in open_to):
        yield found(network.at("endpointPublicAccess"), "opens the API server to everybody")


RULE = Rule(
    id="eks-disallow-public-endpoint",
    title="The API server of the cluster is not for everybody",
    severity=Severity.CRITICAL,
    refs=(
        "Security Hub EKS.1",
        "CIS EKS 5.4.1",
        "CKV_AWS_38",
        "CKV_AWS_39",
    ),
    why="An open endpoint is one stolen token away from the cluster",
    remedy="set vpcConfig.endpointPublicAccess: false, or list publicAccessCidrs",
    subject=objects("aws:eks:Cluster"),
    check=_check,
)
