"""Every bucket says how it is encrypted."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.buckets import without_sibling


def _check(stack: Stack, _: Parameters) -> Findings:
    kind = "aws:s3:BucketServerSideEncryptionConfiguration"
    yield from without_sibling(stack, kind, inline="serverSideEncryptionConfiguration", problem="says nothing about its encryption")
    for each in stack.of(kind):
        for rule in each.at("rules").each():
            algorithm = rule.at("applyServerSideEncryptionByDefault", "sseAlgorithm")
            if algorithm.text() not in ("AES256", "aws:kms", "aws:kms:dsse"):
                yield found(algorithm, "is no encryption that S3 has", urn=each.urn)


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
