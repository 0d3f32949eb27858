"""The cluster runs a supported Kubernetes version."""

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


# Standard support: 1.33 until 2026-07-29, 1.34 until 2026-12-02, 1.35 until 2027-03-27 (endoflife.date/amazon-eks, 2026-02).
RULE = Rule(
    id="eks-require-supported-version",
    title="The cluster runs a supported Kubernetes version",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EKS.2",
        "CKV_AWS_339",
    ),
    why="A version past standard support costs six times as much and is finally upgraded by AWS",
    remedy="set version to 1.35 or newer; AWS supports 1.34 until 2026-12-02",
    subject=objects("aws:eks:Cluster"),
    check=_check,
    parameters={
        "oldest": Parameter(default="1.34", description="Oldest minor version of Kubernetes that is allowed", schema={"type": "string"})
    },
)
