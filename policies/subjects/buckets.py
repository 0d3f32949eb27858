"""S3 buckets and the resources that configure them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from policies.engine.fields import Field, UnknownFieldError, matching
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, found

BUCKETS = ("aws:s3:Bucket", "aws:s3:BucketV2")


def both(kind: str) -> tuple[str, str]:
    """A kind of resource that configures a bucket, and its older name."""
    return kind, f"{kind}V2"


def refers_to(sibling: Resource, bucket: Resource) -> bool:
    """True if `sibling` is about `bucket`: by the bucket's name, or by depending on it where a name is unknown yet."""
    try:
        named, own = sibling.at("bucket").text(), bucket.at("bucket").text()
        if named and own:
            return named == own
    except UnknownFieldError:
        pass
    # A resource that is about one bucket may name another, as logging does: then what `bucket` itself comes from decides.
    sources = sibling.property_dependencies.get("bucket")
    return bucket.urn in (sibling.dependencies if sources is None else sources)


def without_sibling(stack: Stack, kind: str, *, problem: str, inline: Callable[[Resource], bool]) -> Findings:
    """A finding for each bucket that no resource of `kind` is about, and that does not say it itself, as `inline` tells."""
    siblings = list(stack.of(*both(kind)))
    for bucket in stack.of(*BUCKETS):
        with stack.doubts:
            if not any(True for _ in matching(siblings, lambda each, bucket=bucket: refers_to(each, bucket))) and not inline(bucket):
                yield found(bucket.at("bucket"), problem, urn=bucket.urn)


def policies_of(stack: Stack, bucket: Resource) -> Iterator[tuple[Resource, Field]]:
    """The fields with a bucket's policy: in a separate resource, or in the bucket. Raises FieldError."""
    if not bucket.at("policy").absent:
        yield bucket, bucket.at("policy")
    for each in matching(stack.of("aws:s3:BucketPolicy"), lambda each: refers_to(each, bucket)):
        yield each, each.at("policy")


def items(field: Field) -> Iterator[Field]:
    """The items of a list, or the single map that other releases of the provider use instead. Raises FieldError."""
    if isinstance(field.value, dict):
        yield field
    else:
        yield from field.each()
