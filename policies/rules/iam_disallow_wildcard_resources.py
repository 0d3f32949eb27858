"""Policies name their resources."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.documents import DOCUMENTS, listed, statements


def _check(document: Resource, given: Parameters) -> Findings:
    for place in listed(document):
        for statement in statements(place):
            free = frozenset(given["actions"])
            if statement.effect == "Allow" and "*" in statement.resources and not free.issuperset(statement.actions):
                yield found(statement.field, "allows actions on every resource")


RULE = Rule(
    id="iam-disallow-wildcard-resources",
    title="Policies name their resources",
    severity=Severity.HIGH,
    refs=(
        "Security Hub IAM.21",
        "CKV_AWS_355",
        "CKV_AWS_290",
    ),
    why="A model's role reads one prefix of one bucket; a star reads them all",
    remedy="name the ARNs; a star may stand only for the objects below a bucket's prefix",
    subject=DOCUMENTS,
    check=_check,
    parameters={
        "actions": Parameter(
            default=["ecr:GetAuthorizationToken", "eks:ListClusters", "ec2:DescribeInstances", "ec2:DescribeInstanceTypes"],
            description="Actions that AWS cannot limit to a resource",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
