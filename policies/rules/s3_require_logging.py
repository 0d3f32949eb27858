"""Every bucket has access logs."""

from __future__ import annotations

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Level, Parameters, Severity, StackRule
from policies.subjects.buckets import items, without_sibling


def _check(stack: Stack, _: Parameters) -> Findings:
    yield from without_sibling(stack, "aws:s3:BucketLogging", inline=_logs, problem="has no access logs")


def _logs(bucket: Resource) -> bool:
    return any(True for name in ("logging", "loggings") for _ in items(bucket.at(name)))


RULE = StackRule(
    id="s3-require-logging",
    title="Every bucket has access logs",
    severity=Severity.LOW,
    refs=(
        "Security Hub S3.9",
        "CKV_AWS_18",
    ),
    why="After a leak, access logs are the only way to tell what was read",
    remedy="add an aws.s3.BucketLogging for the bucket",
    check=_check,
    level=Level.ADVISORY,
)
