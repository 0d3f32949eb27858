"""Every bucket refuses requests in clear."""

from __future__ import annotations

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.buckets import refers_to
from policies.subjects.documents import statements


def _check(stack: Stack, _: Parameters) -> Findings:
    policies = list(stack.of("aws:s3:BucketPolicy"))
    for bucket in stack.of("aws:s3:Bucket", "aws:s3:BucketV2"):
        mine = [policy for policy in policies if refers_to(policy, bucket)]
        if not any(_denies_clear(policy) for policy in mine):
            place = mine[0].at("policy") if mine else bucket.at("bucket")
            yield found(place, "does not refuse requests in clear", urn=mine[0].urn if mine else bucket.urn)


def _denies_clear(policy: Resource) -> bool:
    for statement in statements(policy.at("policy")):
        condition = statement.raw.get("Condition", {}).get("Bool", {})
        if statement.effect == "Deny" and str(condition.get("aws:SecureTransport", "")).lower() == "false":
            return True
    return False


RULE = StackRule(
    id="s3-require-tls",
    title="Every bucket refuses requests in clear",
    severity=Severity.HIGH,
    refs=(
        "Security Hub S3.5",
        "CKV_AWS_379",
    ),
    why="Weights and credentials in clear are anybody's on the way",
    remedy="add an aws.s3.BucketPolicy that denies s3:* where aws:SecureTransport is false",
    check=_check,
)
