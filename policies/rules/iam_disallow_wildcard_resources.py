"""IAM policies name their resources."""

from __future__ import annotations

from policies.engine.fields import Field
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.iam.arns import action_like, names_every_resource
from policies.subjects.documents import DOCUMENTS, Statement, statements


def _check(place: Field, given: Parameters) -> Findings:
    for statement in statements(place):
        if statement.effect != "Allow" or _is_free(statement.actions, given["actions"]):
            continue
        if any(map(names_every_resource, statement.resources)) and not _is_tagged(statement):
            yield found(statement.field, "allows actions on every resource")
        if "NotResource" in statement.raw:
            yield found(statement.field, "allows actions on every resource except some")


def _is_free(actions: list[str], patterns: list[str]) -> bool:
    """True if AWS can limit none of the actions to a resource; a statement with NotAction has a rule of its own."""
    return all(any(action_like(pattern, action) for pattern in patterns) for action in actions)


def _is_tagged(statement: Statement) -> bool:
    """True if a condition holds the statement to resources that carry a tag or an alias."""
    return any(
        "tag/" in each.key and not each.operator.negated and each.operator.name != "null" and not each.holds(None)
        for each in statement.conditions()
    )


RULE = Rule(
    id="iam-disallow-wildcard-resources",
    title="IAM policies name their resources",
    severity=Severity.HIGH,
    refs=(
        "Security Hub IAM.21",
        "CKV_AWS_355",
        "CKV_AWS_290",
    ),
    why="A model's role needs one prefix of one bucket. A wildcard gives it all of them",
    remedy="list the ARNs; a wildcard is allowed only for the objects below a bucket's prefix",
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
                "xray:GetSampling*",
                "xray:PutTelemetryRecords",
                "xray:PutTraceSegments",
            ],
            description="Actions, or patterns of actions, that AWS cannot limit to a resource",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
