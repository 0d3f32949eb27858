"""No bucket policy allows everybody."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.buckets import BUCKETS
from policies.subjects.documents import statements
from policies.subjects.objects import objects


def _check(holder: Resource, _: Parameters) -> Findings:
    for statement in statements(holder.at("policy")):
        if statement.is_public():
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
    remedy="name the roles that may read, or hold the statement to an organisation, account or VPC by a condition",
    subject=objects("aws:s3:BucketPolicy", *BUCKETS),
    check=_check,
)
