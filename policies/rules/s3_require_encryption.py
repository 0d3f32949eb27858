"""Every bucket sets its encryption."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.fields import Field
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.buckets import BUCKETS, both, items, without_sibling

KIND = "aws:s3:BucketServerSideEncryptionConfiguration"
ALGORITHMS = ("AES256", "aws:kms", "aws:kms:dsse")


def _check(stack: Stack, _: Parameters) -> Findings:
    yield from without_sibling(stack, KIND, inline=lambda bucket: any(_inline(bucket)), problem="has no encryption settings")
    for each in stack.of(*both(KIND), *BUCKETS):
        with stack.doubts:
            for rule in _inline(each) if each.kind in BUCKETS else each.at("rules").each():
                algorithm = rule.at("applyServerSideEncryptionByDefault", "sseAlgorithm")
                if algorithm.text() not in ALGORITHMS:
                    yield found(algorithm, "is not an encryption algorithm of S3", urn=each.urn)


def _inline(bucket: Resource) -> Iterator[Field]:
    for name in ("serverSideEncryptionConfiguration", "serverSideEncryptionConfigurations"):
        for each in items(bucket.at(name)):
            yield from items(each.at("rule"))
            yield from items(each.at("rules"))


RULE = StackRule(
    id="s3-require-encryption",
    title="Every bucket sets its encryption",
    severity=Severity.HIGH,
    refs=(
        "Security Hub S3.17",
        "CKV_AWS_145",
        "CKV_AWS_19",
    ),
    why="Without this setting, the default of the AWS account decides how weights are encrypted",
    remedy="add an aws.s3.BucketServerSideEncryptionConfiguration for the bucket",
    check=_check,
)
