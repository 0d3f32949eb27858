"""Every bucket logs who reads it."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Level, Parameters, Severity, StackRule
from policies.subjects.buckets import without_sibling


def _check(stack: Stack, _: Parameters) -> Findings:
    yield from without_sibling(stack, "aws:s3:BucketLogging", inline="logging", problem="logs no access")


RULE = StackRule(
    id="s3-require-logging",
    title="Every bucket logs who reads it",
    severity=Severity.LOW,
    refs=(
        "Security Hub S3.9",
        "CKV_AWS_18",
    ),
    why="After a leak the log is all there is to tell what left",
    remedy="add an aws.s3.BucketLogging for the bucket",
    check=_check,
    level=Level.ADVISORY,
)
