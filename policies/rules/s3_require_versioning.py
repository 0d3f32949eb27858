"""Every bucket keeps versions."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.buckets import without_sibling


def _check(stack: Stack, _: Parameters) -> Findings:
    yield from without_sibling(stack, "aws:s3:BucketVersioning", inline="versioning", problem="keeps no versions")
    for each in stack.of("aws:s3:BucketVersioning"):
        status = each.at("versioningConfiguration", "status")
        if status.text() != "Enabled":
            yield found(status, "is not Enabled", urn=each.urn)


RULE = StackRule(
    id="s3-require-versioning",
    title="Every bucket keeps versions",
    severity=Severity.MEDIUM,
    refs=(
        "Security Hub S3.14",
        "CKV_AWS_21",
    ),
    why="An overwritten shard is a model that no longer loads; a version brings it back",
    remedy="add an aws.s3.BucketVersioning with status Enabled for the bucket",
    check=_check,
)
