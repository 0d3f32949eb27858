"""No bucket has a public ACL."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

EVERYBODY = ("/AllUsers", "/AuthenticatedUsers")


def _check(bucket: Resource, _: Parameters) -> Findings:
    if bucket.at("acl").text().startswith(("public", "authenticated")):
        yield found(bucket.at("acl"), "gives other principals access to the bucket")
    for grant in (*bucket.at("grants").each(), *bucket.at("accessControlPolicy", "grants").each()):
        for uri in (grant.at("uri"), grant.at("grantee", "uri")):
            if uri.text().endswith(EVERYBODY):
                yield found(uri, "gives other principals access to the bucket")


RULE = Rule(
    id="s3-disallow-public-acl",
    title="No bucket has a public ACL",
    severity=Severity.CRITICAL,
    refs=(
        "Security Hub S3.2",
        "CKV_AWS_20",
        "CKV_AWS_57",
    ),
    why="A public ACL opens the bucket, whatever its policy says",
    remedy="remove the ACL and grants to all users, or set acl to private",
    subject=objects("aws:s3:Bucket", "aws:s3:BucketV2", "aws:s3:BucketAcl", "aws:s3:BucketAclV2"),
    check=_check,
)
