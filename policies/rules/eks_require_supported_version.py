"""The cluster's Kubernetes is supported."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.images import at_least
from policies.subjects.objects import objects


def _check(cluster: Resource, given: Parameters) -> Findings:
    version = cluster.at("version")
    if not version.text():
        yield found(version, "is not set")
    elif not at_least(version.text(), given["oldest"]):
        yield found(version, f"is older than {given['oldest']}")


RULE = Rule(
    id="eks-require-supported-version",
    title="The cluster's Kubernetes is supported",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EKS.2",
        "CKV_AWS_339",
    ),
    why="A version past its support gets no fixes, and costs six times as much until it is raised by force",
    remedy="set version to 1.33 or newer",
    subject=objects("aws:eks:Cluster"),
    check=_check,
    parameters={
        "oldest": Parameter(default="1.33", description="The oldest minor version of Kubernetes that may run", schema={"type": "string"})
    },
)
