"""No bucket policy allows everybody."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.documents import statements
from policies.subjects.objects import objects


def _check(policy: Resource, _: Parameters) -> Findings:
    for statement in statements(policy.at("policy")):
        if statement.effect == "Allow" and "*" in statement.principals and not statement.raw.get("Condition"):
            yield found(statement.field, "allows everybody")


RULE = Rule(
    id="s3-disallow-public-policy",
    title="No bucket policy allows everybody",
    severity=Severity.CRITICAL,
    refs=(
        "Security Hub S3.2",
        "CKV_AWS_70",
        "CKV_AWS_375",
    ),
    why="A star as principal is the public",
    remedy="name the roles that may read",
    subject=objects("aws:s3:BucketPolicy"),
    check=_check,
)
