"""Every bucket requires TLS."""

from __future__ import annotations

from policies.engine.fields import Field, matching
from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.buckets import BUCKETS, policies_of
from policies.subjects.documents import statements


def _check(stack: Stack, _: Parameters) -> Findings:
    for bucket in stack.of(*BUCKETS):
        with stack.doubts:
            mine = list(policies_of(stack, bucket))
            if not any(True for _ in matching(mine, lambda each: _denies_clear(each[1]))):
                owner, place = mine[0] if mine else (bucket, bucket.at("bucket"))
                yield found(place, "does not deny requests without TLS", urn=owner.urn)


def _denies_clear(place: Field) -> bool:
    """True if a statement denies every principal every action without TLS."""
    return any(
        statement.effect == "Deny"
        and "*" in statement.principals
        and any(action.lower() in ("*", "s3:*") for action in statement.actions)
        and any(each.key == "aws:securetransport" and each.values == ("false",) for each in statement.conditions())
        for statement in statements(place)
    )


RULE = StackRule(
    id="s3-require-tls",
    title="Every bucket requires TLS",
    severity=Severity.HIGH,
    refs=(
        "Security Hub S3.5",
        "CKV_AWS_379",
    ),
    why="Without TLS, weights and credentials can be read on the network",
    remedy="add an aws.s3.BucketPolicy that denies s3:* where aws:SecureTransport is false",
    check=_check,
)
