"""No bucket policy allows public access."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.buckets import BUCKETS
from policies.subjects.documents import statements
from policies.subjects.objects import objects


def _check(holder: Resource, _: Parameters) -> Findings:
    for statement in statements(holder.at("policy")):
        if statement.is_public():
            yield found(statement.field, "allows any principal")


RULE = Rule(
    id="s3-disallow-public-policy",
    title="No bucket policy allows public access",
    severity=Severity.CRITICAL,
    refs=(
        "Security Hub S3.2",
        "CKV_AWS_70",
        "CKV_AWS_375",
    ),
    why="With the principal * anyone can use the bucket",
    remedy="name the roles that may read, or limit the statement to an organization, account or VPC with a condition",
    subject=objects("aws:s3:BucketPolicy", *BUCKETS),
    check=_check,
)
