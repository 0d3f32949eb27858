"""S3 buckets."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from inferplan.policies.engine.fields import Field, UnknownFieldError, any_matching, matching
from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    is_set,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.iam.documents import BUCKETS, statements

EVERYBODY = ("/AllUsers", "/AuthenticatedUsers")
ENCRYPTION_KIND = "aws:s3:BucketServerSideEncryptionConfiguration"
ALGORITHMS = ("AES256", "aws:kms", "aws:kms:dsse")
VERSIONING_KIND = "aws:s3:BucketVersioning"
_WEIGHTS = re.compile(r"(^|[-_./])(weights?|models?|checkpoints?)([-_./]|$)")


def kind_and_v2(kind: str) -> tuple[str, str]:
    """A kind of resource that configures a bucket, under both of its names."""
    return kind, f"{kind}V2"


def configures(sibling: Resource, bucket: Resource) -> bool:
    """True if `sibling` configures `bucket`: by the bucket's name, or by a dependency if a name is
    not known yet.
    """
    try:
        name, own = sibling.at("bucket").text(), bucket.at("bucket").text()
        if name and own:
            return name == own
    except UnknownFieldError:
        pass
    # A resource can depend on two buckets, as logging does: the property `bucket` decides.
    sources = sibling.property_dependencies.get("bucket")
    return bucket.urn in (sibling.dependencies if sources is None else sources)


def siblings_of(stack: Stack, bucket: Resource, *kinds: str) -> Iterator[Resource]:
    """The resources of `kinds` that configure `bucket`. Raises FieldError."""
    name = ""
    with suppress(UnknownFieldError):
        name = bucket.at("bucket").text()
    return matching(
        stack.candidates(kinds, _buckets, name, bucket.urn), lambda each: configures(each, bucket)
    )


def _buckets(sibling: Resource) -> Iterator[Hashable]:
    """The name of the bucket that `sibling` may configure, and the URNs of those that it may depend
    on. Raises FieldError.
    """
    with suppress(UnknownFieldError):
        yield sibling.at("bucket").text()
    sources = sibling.property_dependencies.get("bucket")
    yield from sibling.dependencies if sources is None else sources


def buckets_without(
    stack: Stack,
    kind: str,
    *,
    problem: str,
    own: Callable[[Resource], Iterable[Any]] = lambda _: (),
) -> Violations:
    """A violation for each bucket without a resource of `kind` and without the same settings of its
    `own`.
    """
    for bucket in stack.of(*BUCKETS):
        with stack.unreadable:
            siblings = siblings_of(stack, bucket, *kind_and_v2(kind))
            if not any(True for _ in siblings) and not any(own(bucket)):
                yield violation(bucket.at("bucket"), problem)


@resource_rule(objects(*BUCKETS, "aws:s3:BucketAcl", "aws:s3:BucketAclV2"))
def s3_disallow_public_acl(bucket: Resource, _: Parameters) -> Violations:
    if bucket.at("acl").text().startswith(("public", "authenticated")):
        yield violation(bucket.at("acl"), "gives other principals access to the bucket")
    grants = (*bucket.at("grants").each(), *bucket.at("accessControlPolicy", "grants").each())
    owner = bucket.at("accessControlPolicy", "owner", "id").text()
    others = (
        grant.at("grantee", "id") for grant in bucket.at("accessControlPolicy", "grants").each()
    )
    yield from violations(
        others,
        lambda each: each.text() not in ("", owner),
        "gives another account access to the bucket",
    )
    uris = (uri for grant in grants for uri in (grant.at("uri"), grant.at("grantee", "uri")))
    yield from violations(
        uris,
        lambda uri: uri.text().endswith(EVERYBODY),
        "gives other principals access to the bucket",
    )


@resource_rule(objects("aws:s3:BucketPolicy", *BUCKETS))
def s3_disallow_public_policy(holder: Resource, _: Parameters) -> Violations:
    yield from (
        violation(each.field, "allows any principal")
        for each in statements(holder.at("policy"))
        if each.is_public()
    )


@stack_rule
def s3_require_block(stack: Stack, _: Parameters) -> Violations:
    yield from buckets_without(
        stack, "aws:s3:BucketPublicAccessBlock", problem="has no public access block"
    )


@stack_rule
def s3_require_encryption(stack: Stack, _: Parameters) -> Violations:
    yield from buckets_without(
        stack, ENCRYPTION_KIND, own=_own_rules, problem="has no encryption settings"
    )
    for each in stack.of(*kind_and_v2(ENCRYPTION_KIND), *BUCKETS):
        with stack.unreadable:
            rules = _own_rules(each) if each.kind in BUCKETS else each.at("rules").each()
            algorithms = (
                rule.at("applyServerSideEncryptionByDefault", "sseAlgorithm") for rule in rules
            )
            yield from violations(
                algorithms,
                lambda field: field.text() not in ALGORITHMS,
                "is not an encryption algorithm of S3",
            )


def _own(bucket: Resource, name: str) -> Iterator[Field]:
    """Settings in the bucket itself. Releases of the provider differ: `name` or its plural, a list
    or a single map.
    """
    return (each for key in (name, f"{name}s") for each in bucket.at(key).items())


def _own_rules(bucket: Resource) -> Iterator[Field]:
    for each in _own(bucket, "serverSideEncryptionConfiguration"):
        yield from each.at("rule").items()
        yield from each.at("rules").items()


@stack_rule
def s3_require_logging(stack: Stack, _: Parameters) -> Violations:
    yield from buckets_without(
        stack,
        "aws:s3:BucketLogging",
        own=lambda bucket: _own(bucket, "logging"),
        problem="has no access logs",
    )


@stack_rule
def s3_require_tls(stack: Stack, _: Parameters) -> Violations:
    for bucket in stack.of(*BUCKETS):
        with stack.unreadable:
            separate = siblings_of(stack, bucket, "aws:s3:BucketPolicy")
            policies = [
                each.at("policy")
                for each in ([bucket] if is_set(bucket.at("policy")) else []) + list(separate)
            ]
            if not any_matching(policies, _requires_tls):
                yield violation(
                    policies[0] if policies else bucket.at("bucket"),
                    "does not deny requests without TLS",
                )


def _requires_tls(field: Field) -> bool:
    """True if a statement denies all principals all actions without TLS."""
    return any(
        statement.effect == "Deny"
        and "*" in statement.principals
        and any(action.lower() in ("*", "s3:*") for action in statement.actions)
        and any(
            each.key == "aws:securetransport" and each.values == ("false",)
            for each in statement.conditions()
        )
        for statement in statements(field)
    )


@stack_rule
def s3_require_versioning(stack: Stack, _: Parameters) -> Violations:
    yield from buckets_without(
        stack,
        VERSIONING_KIND,
        own=lambda bucket: (each.at("enabled").flag() for each in _own(bucket, "versioning")),
        problem="has no versioning",
    )
    for each in stack.of(*kind_and_v2(VERSIONING_KIND)):
        with stack.unreadable:
            status = each.at("versioningConfiguration", "status")
            yield from violations(status, lambda field: field.text() != "Enabled", "is not Enabled")


@stack_rule
def s3_disallow_expiring_weights(stack: Stack, _: Parameters) -> Violations:
    stores = [
        str(facts.get("location")).removeprefix("s3://").partition("/")
        for (kind, _name), facts in stack.facts.items()
        if kind == "store"
    ]
    for bucket in stack.of(*BUCKETS):
        with stack.unreadable:
            called = bucket.at("bucket").text()
            prefixes = [prefix for name, _, prefix in stores if name == called]
            if not prefixes and not _WEIGHTS.search(called):
                continue
            kinds = kind_and_v2("aws:s3:BucketLifecycleConfiguration")
            for config in siblings_of(stack, bucket, *kinds):
                yield from (
                    violation(rule.at("expiration"), "deletes weights of a store")
                    for rule in config.at("rules").each()
                    if _expires(rule, prefixes)
                )


def _expires(rule: Field, prefixes: list[str]) -> bool:
    """True if a lifecycle rule deletes current objects below one of `prefixes`. If there are none,
    it must delete the whole bucket or a prefix that is named for weights. Raises FieldError.
    """
    if rule.at("status").text() == "Disabled" or not any(
        is_set(rule.at("expiration", key)) for key in ("days", "date")
    ):
        return False
    own = (
        rule.at("filter", "prefix").text()
        or rule.at("filter", "and", "prefix").text()
        or rule.at("prefix").text()
    ).strip("/")
    if not prefixes:
        tagged = any(is_set(rule.at("filter", key)) for key in ("tag", "and", "objectSizeLessThan"))
        return bool(_WEIGHTS.search(own)) or (not own and not tagged)
    return any(own.startswith(each) or each.startswith(own) for each in prefixes)
