"""AWS networks, clusters, keys and registries follow AWS recommendations."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects
from policies.subjects.settings_aws import KINDS, wrong


def _check(resource: Resource, _: Parameters) -> Findings:
    yield from (found(place, problem) for place, problem in wrong(resource))


RULE = Rule(
    id="aws-restrict-settings",
    title="AWS networks, clusters, keys and registries follow AWS recommendations",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EC2.9",
        "EC2.15",
        "EC2.25",
        "ECR.1",
        "ECR.2",
        "ELB.1",
        "ELB.4",
        "CIS AWS 3.6",
        "EKS best practices: IAM",
    ),
    why="Each of these settings alone can expose a node, a cluster or a store",
    remedy="set the field to a safe value; name cluster administrators only under cluster.create.admins in the stack file",
    subject=objects(*KINDS),
    check=_check,
)
