"""Creates a bucket for model files with safe settings. It uploads nothing and grants no access.

`retain` protects the bucket with its key and all of its settings, and keeps them when the stack is destroyed: a bucket without its
public access block and policy would be exposed. Without `retain`, a destroy deletes the bucket with every object and version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
from pulumi_aws import kms, s3

from components.platforms.aws.iam import tls_only

if TYPE_CHECKING:
    from components.platforms.aws.store_spec import BucketCreation


class ModelBucket(pulumi.ComponentResource):
    """The bucket named `bucket`, with its KMS key, versioning, public access block, policy and lifecycle."""

    def __init__(self, name: str, bucket: str, spec: BucketCreation, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("inferplan:storage:ModelBucket", name, {"spec": {"bucket": bucket, **spec.intent()}}, opts)
        retained = pulumi.ResourceOptions(parent=self, protect=spec.retain, retain_on_delete=spec.retain)
        key = kms.Key(
            name, description=f"Objects of the bucket {bucket}", enable_key_rotation=True, deletion_window_in_days=30, opts=retained
        )
        # S3 deletes only an empty bucket: without retention, a destroy empties it first.
        resource = s3.Bucket(name, bucket=bucket, force_destroy=None if spec.retain else True, opts=retained)
        versions = s3.BucketVersioning(
            name,
            bucket=resource.bucket,
            versioning_configuration=s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
            opts=retained,
        )
        s3.BucketServerSideEncryptionConfiguration(name, bucket=resource.bucket, rules=[_encryption(key)], opts=retained)
        access_block = s3.BucketPublicAccessBlock(
            name,
            bucket=resource.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=retained,
        )
        if spec.access_logs is not None:
            prefix = f"{bucket}/" if spec.access_logs.prefix is None else spec.access_logs.prefix
            s3.BucketLogging(name, bucket=resource.bucket, target_bucket=spec.access_logs.bucket, target_prefix=prefix, opts=retained)
        # S3 rejects two simultaneous changes of a bucket's access, so the policy waits for the access block.
        after_block = pulumi.ResourceOptions.merge(retained, pulumi.ResourceOptions(depends_on=[access_block]))
        s3.BucketPolicy(name, bucket=resource.bucket, policy=pulumi.Output.json_dumps(tls_only(bucket)), opts=after_block)
        s3.BucketLifecycleConfiguration(
            name,
            bucket=resource.bucket,
            rules=_lifecycle(spec),
            # S3 sometimes rejects rules for old versions before versioning is enabled.
            opts=pulumi.ResourceOptions.merge(retained, pulumi.ResourceOptions(depends_on=[versions])),
        )
        self.bucket: pulumi.Output[str] = resource.bucket
        self.key_arn: pulumi.Output[str] = key.arn
        self.register_outputs({"bucket": resource.bucket})


def _encryption(key: kms.Key) -> s3.BucketServerSideEncryptionConfigurationRuleArgs:
    by_default = s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
        sse_algorithm="aws:kms", kms_master_key_id=key.arn
    )
    # With a bucket key S3 calls KMS once for many objects; otherwise KMS could throttle a model with a thousand shards.
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
