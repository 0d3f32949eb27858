"""A bucket for model files, created the way a careful account wants it. It uploads nothing and grants nobody anything.

`retain` protects the bucket with its key and all of its settings, and leaves them in place when the stack goes: a bucket that
stays while its walls go would be a bucket in the open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
from pulumi_aws import kms, s3

from components.identity.policies import tls_only

if TYPE_CHECKING:
    from components.storage.aws_spec import BucketCreation


class ModelBucket(pulumi.ComponentResource):
    """The bucket called `bucket`, with its key, versions, walls and lifecycle."""

    def __init__(self, name: str, bucket: str, spec: BucketCreation, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("inferplan:storage:ModelBucket", name, {"spec": {"bucket": bucket, **spec.intent()}}, opts)
        kept = pulumi.ResourceOptions(parent=self, protect=spec.retain, retain_on_delete=spec.retain)
        key = kms.Key(name, description=f"Objects of the bucket {bucket}", enable_key_rotation=True, deletion_window_in_days=30, opts=kept)
        made = s3.Bucket(name, bucket=bucket, opts=kept)
        versions = s3.BucketVersioning(
            name,
            bucket=made.bucket,
            versioning_configuration=s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
            opts=kept,
        )
        s3.BucketServerSideEncryptionConfiguration(name, bucket=made.bucket, rules=[_encryption(key)], opts=kept)
        walls = s3.BucketPublicAccessBlock(
            name,
            bucket=made.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=kept,
        )
        if spec.access_logs is not None:
            prefix = f"{bucket}/" if spec.access_logs.prefix is None else spec.access_logs.prefix
            s3.BucketLogging(name, bucket=made.bucket, target_bucket=spec.access_logs.bucket, target_prefix=prefix, opts=kept)
        # S3 answers two changes of a bucket's access at once with a conflict, so the policy waits for the walls.
        after_walls = pulumi.ResourceOptions.merge(kept, pulumi.ResourceOptions(depends_on=[walls]))
        s3.BucketPolicy(name, bucket=made.bucket, policy=pulumi.Output.json_dumps(tls_only(bucket)), opts=after_walls)
        s3.BucketLifecycleConfiguration(
            name,
            bucket=made.bucket,
            rules=_lifecycle(spec),
            # Rules about old versions mean nothing before versioning is on (S3 refuses them now and then).
            opts=pulumi.ResourceOptions.merge(kept, pulumi.ResourceOptions(depends_on=[versions])),
        )
        self.bucket: pulumi.Output[str] = made.bucket
        self.key_arn: pulumi.Output[str] = key.arn
        self.register_outputs({"bucket": made.bucket})


def _encryption(key: kms.Key) -> s3.BucketServerSideEncryptionConfigurationRuleArgs:
    by_default = s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
        sse_algorithm="aws:kms", kms_master_key_id=key.arn
    )
    # With a bucket key S3 asks KMS once for many objects; a model's thousand shards would otherwise be throttled.
    return s3.BucketServerSideEncryptionConfigurationRuleArgs(apply_server_side_encryption_by_default=by_default, bucket_key_enabled=True)


def _lifecycle(spec: BucketCreation) -> list[s3.BucketLifecycleConfigurationRuleArgs]:
    everything = s3.BucketLifecycleConfigurationRuleFilterArgs(prefix="")
    old = s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(noncurrent_days=spec.old_versions_days)
    parts = s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(days_after_initiation=spec.abort_uploads_days)
    return [
        s3.BucketLifecycleConfigurationRuleArgs(id="old-versions", status="Enabled", filter=everything, noncurrent_version_expiration=old),
        s3.BucketLifecycleConfigurationRuleArgs(
            id="unfinished-uploads", status="Enabled", filter=everything, abort_incomplete_multipart_upload=parts
        ),
    ]
