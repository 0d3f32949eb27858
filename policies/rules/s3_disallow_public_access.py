"""Buckets refuse the public, whatever a policy says."""

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
    title="Buckets refuse the public, whatever a policy says",
    severity=Severity.CRITICAL,
    refs=(
        "Security Hub S3.8",
        "CKV_AWS_53-56",
        "CIS AWS 2.1.4",
    ),
    why="Weights and adapters of a public bucket are everybody's",
    remedy="set all four of blockPublicAcls, blockPublicPolicy, ignorePublicAcls and restrictPublicBuckets",
    subject=objects("aws:s3:BucketPublicAccessBlock"),
    check=_check,
)
