"""S3 buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from policies.engine.fields import Field, UnknownFieldError, matching
from policies.engine.resource import Resource, Stack, objects
from policies.engine.rule import Level, Parameters, Severity, Violations, must_be, resource_rule, stack_rule, violation
from policies.iam.documents import BUCKETS, statements


def kind_and_v2(kind: str) -> tuple[str, str]:
    """A kind of resource that configures a bucket, under both of its names."""
    return kind, f"{kind}V2"


def configures(sibling: Resource, bucket: Resource) -> bool:
    """True if `sibling` configures `bucket`: by the bucket's name, or by a dependency if a name is not known yet."""
    try:
        name, own = sibling.at("bucket").text(), bucket.at("bucket").text()
        if name and own:
            return name == own
    except UnknownFieldError:
        pass
    # A resource can depend on two buckets, as logging does: the property `bucket` decides.
    sources = sibling.property_dependencies.get("bucket")
    return bucket.urn in (sibling.dependencies if sources is None else sources)


def buckets_without(stack: Stack, kind: str, *, problem: str, inline: Callable[[Resource], bool]) -> Violations:
    """A violation for each bucket without a resource of `kind` and without the same settings of its own (`inline`)."""
    siblings = list(stack.of(*kind_and_v2(kind)))
    for bucket in stack.of(*BUCKETS):
        with stack.unreadable:
            if not any(True for _ in matching(siblings, lambda each, bucket=bucket: configures(each, bucket))) and not inline(bucket):
                yield violation(bucket.at("bucket"), problem, urn=bucket.urn)


def policies_of(stack: Stack, bucket: Resource) -> Iterator[tuple[Resource, Field]]:
    """The policies of a bucket, its own and separate ones, each with its resource. Raises FieldError."""
    if not bucket.at("policy").absent:
        yield bucket, bucket.at("policy")
    for each in matching(stack.of("aws:s3:BucketPolicy"), lambda each: configures(each, bucket)):
        yield each, each.at("policy")


@resource_rule(objects("aws:s3:BucketPublicAccessBlock"), Severity.CRITICAL, "Security Hub S3.8", "CKV_AWS_53-56", "CIS AWS 2.1.4")
def s3_disallow_public_access(block: Resource, _: Parameters) -> Violations:
    """Buckets block public access, whatever their policy says.

    Why: Anyone can download the weights and adapters in a public bucket.
    Remedy: set blockPublicAcls, blockPublicPolicy, ignorePublicAcls and restrictPublicBuckets to true.
    """
    for name in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"):
        yield from must_be(block.at(name), value=True)


EVERYBODY = ("/AllUsers", "/AuthenticatedUsers")


@resource_rule(
    objects("aws:s3:Bucket", "aws:s3:BucketV2", "aws:s3:BucketAcl", "aws:s3:BucketAclV2"),
    Severity.CRITICAL,
    "Security Hub S3.2",
    "CKV_AWS_20",
    "CKV_AWS_57",
)
def s3_disallow_public_acl(bucket: Resource, _: Parameters) -> Violations:
    """No bucket has a public ACL.

    Why: A public ACL opens the bucket, whatever its policy says.
    Remedy: remove the ACL and grants to all users, or set acl to private.
    """
    if bucket.at("acl").text().startswith(("public", "authenticated")):
        yield violation(bucket.at("acl"), "gives other principals access to the bucket")
    for grant in (*bucket.at("grants").each(), *bucket.at("accessControlPolicy", "grants").each()):
        for uri in (grant.at("uri"), grant.at("grantee", "uri")):
            if uri.text().endswith(EVERYBODY):
                yield violation(uri, "gives other principals access to the bucket")


@resource_rule(objects("aws:s3:BucketPolicy", *BUCKETS), Severity.CRITICAL, "Security Hub S3.2", "CKV_AWS_70", "CKV_AWS_375")
def s3_disallow_public_policy(holder: Resource, _: Parameters) -> Violations:
    """No bucket policy allows public access.

    Why: With the principal *, anyone can use the bucket.
    Remedy: name the roles that may read, or limit the statement to an organization, account or VPC with a condition.
    """
    for statement in statements(holder.at("policy")):
        if statement.is_public():
            yield violation(statement.field, "allows any principal")


@stack_rule(Severity.CRITICAL, "Security Hub S3.8", "CKV2_AWS_6")
def s3_require_block(stack: Stack, _: Parameters) -> Violations:
    """Every bucket has a public access block.

    Why: Without it, one wrong policy opens the bucket to the public.
    Remedy: add an aws.s3.BucketPublicAccessBlock for the bucket.
    """
    yield from buckets_without(stack, "aws:s3:BucketPublicAccessBlock", problem="has no public access block", inline=lambda _: False)


ENCRYPTION_KIND = "aws:s3:BucketServerSideEncryptionConfiguration"
ALGORITHMS = ("AES256", "aws:kms", "aws:kms:dsse")


@stack_rule(Severity.HIGH, "Security Hub S3.17", "CKV_AWS_145", "CKV_AWS_19")
def s3_require_encryption(stack: Stack, _: Parameters) -> Violations:
    """Every bucket sets its encryption.

    Why: Without this setting, the default of the AWS account decides how weights are encrypted.
    Remedy: add an aws.s3.BucketServerSideEncryptionConfiguration for the bucket.
    """
    yield from buckets_without(
        stack, ENCRYPTION_KIND, inline=lambda bucket: any(_inline_rules(bucket)), problem="has no encryption settings"
    )
    for each in stack.of(*kind_and_v2(ENCRYPTION_KIND), *BUCKETS):
        with stack.unreadable:
            for rule in _inline_rules(each) if each.kind in BUCKETS else each.at("rules").each():
                algorithm = rule.at("applyServerSideEncryptionByDefault", "sseAlgorithm")
                if algorithm.text() not in ALGORITHMS:
                    yield violation(algorithm, "is not an encryption algorithm of S3", urn=each.urn)


def _inline_rules(bucket: Resource) -> Iterator[Field]:
    for name in ("serverSideEncryptionConfiguration", "serverSideEncryptionConfigurations"):
        # Releases of the provider differ: a list or a single map.
        for each in bucket.at(name).items():
            yield from each.at("rule").items()
            yield from each.at("rules").items()


@stack_rule(Severity.LOW, "Security Hub S3.9", "CKV_AWS_18", level=Level.ADVISORY)
def s3_require_logging(stack: Stack, _: Parameters) -> Violations:
    """Every bucket has access logs.

    Why: After a leak, access logs are the only way to tell what was read.
    Remedy: add an aws.s3.BucketLogging for the bucket.
    """
    yield from buckets_without(stack, "aws:s3:BucketLogging", inline=_has_logs, problem="has no access logs")


def _has_logs(bucket: Resource) -> bool:
    return any(True for name in ("logging", "loggings") for _ in bucket.at(name).items())


@stack_rule(Severity.HIGH, "Security Hub S3.5", "CKV_AWS_379")
def s3_require_tls(stack: Stack, _: Parameters) -> Violations:
    """Every bucket requires TLS.

    Why: Without TLS, weights and credentials can be read on the network.
    Remedy: add an aws.s3.BucketPolicy that denies s3:* where aws:SecureTransport is false.
    """
    for bucket in stack.of(*BUCKETS):
        with stack.unreadable:
            policies = list(policies_of(stack, bucket))
            if not any(True for _ in matching(policies, lambda each: _requires_tls(each[1]))):
                owner, field = policies[0] if policies else (bucket, bucket.at("bucket"))
                yield violation(field, "does not deny requests without TLS", urn=owner.urn)


def _requires_tls(field: Field) -> bool:
    """True if a statement denies all principals all actions without TLS."""
    return any(
        statement.effect == "Deny"
        and "*" in statement.principals
        and any(action.lower() in ("*", "s3:*") for action in statement.actions)
        and any(each.key == "aws:securetransport" and each.values == ("false",) for each in statement.conditions())
        for statement in statements(field)
    )


VERSIONING_KIND = "aws:s3:BucketVersioning"


@stack_rule(Severity.MEDIUM, "Security Hub S3.14", "CKV_AWS_21")
def s3_require_versioning(stack: Stack, _: Parameters) -> Violations:
    """Every bucket keeps versions.

    Why: A model with an overwritten shard no longer loads. Versioning lets you restore the shard.
    Remedy: add an aws.s3.BucketVersioning with status Enabled for the bucket.
    """
    yield from buckets_without(stack, VERSIONING_KIND, inline=_has_versioning, problem="has no versioning")
    for each in stack.of(*kind_and_v2(VERSIONING_KIND)):
        with stack.unreadable:
            status = each.at("versioningConfiguration", "status")
            if status.text() != "Enabled":
                yield violation(status, "is not Enabled", urn=each.urn)


def _has_versioning(bucket: Resource) -> bool:
    return any(each.at("enabled").flag() for name in ("versioning", "versionings") for each in bucket.at(name).items())
