"""The cluster keeps its audit log."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(cluster: Resource, given: Parameters) -> Findings:
    kept = cluster.at("enabledClusterLogTypes").texts()
    for wanted in given["types"]:
        if wanted not in kept:
            yield found(cluster.at("enabledClusterLogTypes"), f"does not hold {wanted}")


RULE = Rule(
    id="eks-require-logs",
    title="The cluster keeps its audit log",
    severity=Severity.MEDIUM,
    refs=(
        "Security Hub EKS.8",
        "CIS EKS 2.1.1",
        "CKV_AWS_37",
    ),
    why="Without the audit log you cannot tell who read a Secret",
    remedy="set enabledClusterLogTypes: [api, audit, authenticator]",
    subject=objects("aws:eks:Cluster"),
    check=_check,
    parameters={
        "types": Parameter(
            default=["api", "audit", "authenticator"],
            description="Log types that must be enabled",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
