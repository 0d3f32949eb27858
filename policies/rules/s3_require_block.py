"""Every bucket has a public access block."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule
from policies.subjects.buckets import without_sibling


def _check(stack: Stack, _: Parameters) -> Findings:
    yield from without_sibling(stack, "aws:s3:BucketPublicAccessBlock", problem="has no public access block", inline=lambda _: False)


RULE = StackRule(
    id="s3-require-block",
    title="Every bucket has a public access block",
    severity=Severity.CRITICAL,
    refs=(
        "Security Hub S3.8",
        "CKV2_AWS_6",
    ),
    why="Without it, one wrong policy opens the bucket to the public",
    remedy="add an aws.s3.BucketPublicAccessBlock for the bucket",
    check=_check,
)
