"""Every bucket keeps versions."""

from __future__ import annotations

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.buckets import both, items, without_sibling

KIND = "aws:s3:BucketVersioning"


def _check(stack: Stack, _: Parameters) -> Findings:
    yield from without_sibling(stack, KIND, inline=_keeps, problem="has no versioning")
    for each in stack.of(*both(KIND)):
        with stack.doubts:
            status = each.at("versioningConfiguration", "status")
            if status.text() != "Enabled":
                yield found(status, "is not Enabled", urn=each.urn)


def _keeps(bucket: Resource) -> bool:
    return any(each.at("enabled").flag() for name in ("versioning", "versionings") for each in items(bucket.at(name)))


RULE = StackRule(
    id="s3-require-versioning",
    title="Every bucket keeps versions",
    severity=Severity.MEDIUM,
    refs=(
        "Security Hub S3.14",
        "CKV_AWS_21",
    ),
    why="A model with an overwritten shard no longer loads. Versioning lets you restore the shard",
    remedy="add an aws.s3.BucketVersioning with status Enabled for the bucket",
    check=_check,
)
