"""Policies name their resources."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from policies.engine.fields import Field
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.documents import DOCUMENTS, statements

# A star alone, or an ARN whose resource is nothing but stars: every bucket, every key.
EVERY = re.compile(r"\*+|arn:([^:]*:){4}[*:/]*\*[*:/]*")


def _check(place: Field, given: Parameters) -> Findings:
    for statement in statements(place):
        if statement.effect != "Allow" or _is_free(statement.actions, given["actions"]):
            continue
        if any(EVERY.fullmatch(resource) for resource in statement.resources):
            yield found(statement.field, "allows actions on every resource")
        if "NotResource" in statement.raw:
            yield found(statement.field, "allows actions on every resource but some")


def _is_free(actions: list[str], patterns: list[str]) -> bool:
    """Whether AWS can limit none of the actions to a resource; a statement with NotAction has a rule of its own."""
    return all(any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns) for action in actions)


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
            default=[
                "autoscaling:Describe*",
                "cloudwatch:PutMetricData",
                "ec2:Describe*",
                "ecr:GetAuthorizationToken",
                "eks:ListClusters",
                "s3:ListAllMyBuckets",
                "sts:GetCallerIdentity",
            ],
            description="Actions, or patterns of them, that AWS cannot limit to a resource",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
