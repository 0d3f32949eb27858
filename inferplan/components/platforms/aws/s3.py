"""An S3 store on EKS: the bucket, if the stack creates it, and a role for each service account that
reads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pulumi
from pulumi_aws import kms, s3

from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.iam import ReadScope, StoreReader, tls_only
from inferplan.components.platforms.aws.lookups import look_up_if_permitted, look_up_kms_key
from inferplan.components.platforms.aws.store_spec import BucketCreation
from inferplan.components.sources import ObjectStore
from inferplan.components.stores import S3StoreSpec


class AwsS3Store:
    """An S3 bucket at AWS; gives each reader its own role."""

    def __init__(
        self,
        name: str,
        spec: S3StoreSpec,
        *,
        home: EksClusterHandle,
        method: Literal["podIdentity", "irsa"],
        namespace: str,
        opts: pulumi.ResourceOptions,
    ) -> None:
        self._objects: ObjectStore = spec.source()
        self._spec, self._home, self._method, self._namespace, self._opts = (
            spec,
            home,
            method,
            namespace,
            opts,
        )
        self._region = spec.region or home.region
        self._bucket: pulumi.Input[str] = spec.bucket
        self._key_arn: pulumi.Input[str] | None = spec.kms_key_arn
        self._has_roles = spec.credentials is None and spec.endpoint is None
        if spec.create is not None:
            bucket = ModelBucket(name, spec.bucket, spec.create, opts=opts)
            self._bucket, self._key_arn = bucket.bucket, bucket.key_arn
        elif self._has_roles:
            lookup = pulumi.InvokeOptions(provider=opts.provider)
            self._bucket = pulumi.Output.from_input(
                _existing_bucket(name, spec, self._region, lookup)
            )
            if spec.kms_key_arn is not None:
                self._key_arn = pulumi.Output.from_input(
                    look_up_kms_key(
                        spec.kms_key_arn, key=f"storage.{name}.kmsKeyArn", options=lookup
                    )
                )

    def source(self, account: str, path: str) -> ObjectStore:
        if not self._has_roles:
            return self._objects
        prefix = "/".join(part for part in (self._spec.prefix, path) if part)
        name, region, key = self._spec.bucket, self._region, self._key_arn
        scope = ReadScope(
            bucket=self._bucket, bucket_name=name, prefix=prefix, region=region, key_arn=key
        )
        reader = StoreReader(
            account,
            home=self._home,
            method=self._method,
            namespace=self._namespace,
            scope=scope,
            opts=self._opts,
        )
        return replace(self._objects, region=self._region, identity=reader.identity)


class ModelBucket(pulumi.ComponentResource):
    """The bucket named `bucket`, with its KMS key, versioning, public access block, policy and
    lifecycle.

    `retain` protects the bucket with its key and all of its settings, and keeps them when the stack
    is destroyed: a bucket without its public access block and policy would be exposed. Without
    `retain`, a destroy deletes the bucket with every object and version.
    """

    def __init__(
        self,
        name: str,
        bucket: str,
        spec: BucketCreation,
        *,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            "inferplan:storage:ModelBucket",
            name,
            {"spec": {"bucket": bucket, **spec.intent()}},
            opts,
        )
        keep = spec.retain
        retained = pulumi.ResourceOptions(parent=self, protect=keep, retain_on_delete=keep)
        key = kms.Key(
            name,
            description=f"Objects of the bucket {bucket}",
            enable_key_rotation=True,
            deletion_window_in_days=30,
            opts=retained,
        )
        # S3 deletes only an empty bucket: without retention, a destroy empties it first.
        resource = s3.Bucket(
            name, bucket=bucket, force_destroy=None if spec.retain else True, opts=retained
        )
        enabled = {"status": "Enabled"}
        versions = s3.BucketVersioning(
            name, bucket=resource.bucket, versioning_configuration=enabled, opts=retained
        )
        s3.BucketServerSideEncryptionConfiguration(
            name, bucket=resource.bucket, rules=[_encryption(key)], opts=retained
        )
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
            s3.BucketLogging(
                name,
                bucket=resource.bucket,
                target_bucket=spec.access_logs.bucket,
                target_prefix=prefix,
                opts=retained,
            )
        s3.BucketPolicy(
            name,
            bucket=resource.bucket,
            policy=pulumi.Output.json_dumps(tls_only(bucket)),
            # S3 rejects two simultaneous changes of a bucket's access.
            opts=_after(access_block, retained),
        )
        s3.BucketLifecycleConfiguration(
            name,
            bucket=resource.bucket,
            rules=_lifecycle(spec),
            # S3 sometimes rejects rules for old versions before versioning is enabled.
            opts=_after(versions, retained),
        )
        self.bucket: pulumi.Output[str] = resource.bucket
        self.key_arn: pulumi.Output[str] = key.arn
        self.register_outputs({"bucket": resource.bucket})


def _after(resource: pulumi.Resource, options: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[resource]))


def _encryption(key: kms.Key) -> s3.BucketServerSideEncryptionConfigurationRuleArgsDict:
    return {
        "apply_server_side_encryption_by_default": {
            "sse_algorithm": "aws:kms",
            "kms_master_key_id": key.arn,
        },
        # S3 then calls KMS once for many objects; otherwise KMS could throttle a model with a
        # thousand shards.
        "bucket_key_enabled": True,
    }


def _lifecycle(spec: BucketCreation) -> list[s3.BucketLifecycleConfigurationRuleArgsDict]:
    common: s3.BucketLifecycleConfigurationRuleArgsDict = {
        "id": "old-versions",
        "status": "Enabled",
        "filter": {"prefix": ""},
    }
    return [
        {**common, "noncurrent_version_expiration": {"noncurrent_days": spec.old_versions_days}},
        {
            **common,
            "id": "unfinished-uploads",
            "abort_incomplete_multipart_upload": {"days_after_initiation": spec.abort_uploads_days},
        },
    ]


async def _existing_bucket(
    name: str, spec: S3StoreSpec, region: str, lookup: pulumi.InvokeOptions
) -> str:
    """Return the existing bucket of the store `name`. Raises pulumi.RunError if it does not exist
    in `region`.
    """
    path = f"storage.{name}"
    answer = await look_up_if_permitted(
        "aws:s3/getBucket:getBucket",
        {"bucket": spec.bucket},
        name=spec.bucket,
        key=f"{path}.bucket",
        remedy="Correct it, check the credentials, or set create: {} to create the bucket.",
        options=lookup,
    )
    bucket_region = answer.get("bucketRegion")
    if bucket_region not in (None, region):
        raise pulumi.RunError(
            f"{path}.region: the bucket {spec.bucket!r} is in {bucket_region}, not in {region}. Set"
            f" region: {bucket_region}."
        )
    return spec.bucket
