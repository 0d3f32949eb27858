"""Buckets block public access, whatever their policy says."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(block: Resource, _: Parameters) -> Findings:
    for name in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"):
        if block.at(name).flag() is not True:
            yield found(block.at(name), "is not true")


RULE = Rule(
    id="s3-disallow-public-access",
    title="Buckets block public access, whatever their policy says",
    severity=Severity.CRITICAL,
    refs=(
        "Security Hub S3.8",
        "CKV_AWS_53-56",
        "CIS AWS 2.1.4",
    ),
    why="Anyone can download the weights and adapters in a public bucket",
    remedy="set blockPublicAcls, blockPublicPolicy, ignorePublicAcls and restrictPublicBuckets to true",
    subject=objects("aws:s3:BucketPublicAccessBlock"),
    check=_check,
)
