"""Every bucket says how it is encrypted."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.fields import Field
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.buckets import BUCKETS, both, items, without_sibling

KIND = "aws:s3:BucketServerSideEncryptionConfiguration"
ALGORITHMS = ("AES256", "aws:kms", "aws:kms:dsse")


def _check(stack: Stack, _: Parameters) -> Findings:
    yield from without_sibling(stack, KIND, inline=lambda bucket: any(_inline(bucket)), problem="says nothing about its encryption")
    for each in stack.of(*both(KIND), *BUCKETS):
        with stack.doubts:
            for rule in _inline(each) if each.kind in BUCKETS else each.at("rules").each():
                algorithm = rule.at("applyServerSideEncryptionByDefault", "sseAlgorithm")
                if algorithm.text() not in ALGORITHMS:
                    yield found(algorithm, "is no encryption that S3 has", urn=each.urn)


def _inline(bucket: Resource) -> Iterator[Field]:
    for name in ("serverSideEncryptionConfiguration", "serverSideEncryptionConfigurations"):
        for each in items(bucket.at(name)):
            yield from items(each.at("rule"))
            yield from items(each.at("rules"))


RULE = StackRule(
    id="s3-require-encryption",
    title="Every bucket says how it is encrypted",
    severity=Severity.HIGH,
    refs=(
        "Security Hub S3.17",
        "CKV_AWS_145",
        "CKV_AWS_19",
    ),
    why="The weights' encryption is decided here rather than by the account's default",
    remedy="add an aws.s3.BucketServerSideEncryptionConfiguration for the bucket",
    check=_check,
)
