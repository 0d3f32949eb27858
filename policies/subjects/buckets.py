"""S3 buckets and the resources beside them that say how they behave."""

from __future__ import annotations

from policies.engine.fields import UnknownFieldError
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, found

_BUCKETS = ("aws:s3:Bucket", "aws:s3:BucketV2")


def refers_to(sibling: Resource, bucket: Resource) -> bool:
    """Whether `sibling` is about `bucket`: by the bucket's name, or by depending on it where the name is unknown yet."""
    try:
        if sibling.at("bucket").text() and sibling.at("bucket").text() == bucket.at("bucket").text():
            return True
    except UnknownFieldError:
        pass
    return bucket.urn in sibling.dependencies


def without_sibling(stack: Stack, kind: str, *, problem: str, inline: str = "") -> Findings:
    """A finding for each bucket that no resource of `kind` is about, and that does not have the setting `inline` itself."""
    siblings = list(stack.of(kind)) + list(stack.of(f"{kind}V2"))
    for bucket in stack.of(*_BUCKETS):
        if inline and bucket.at(inline).value:
            continue
        if not any(refers_to(sibling, bucket) for sibling in siblings):
            yield found(bucket.at("bucket"), problem, urn=bucket.urn)
