"""An S3 store on EKS: the bucket, if the stack creates it, and a role for each service account that reads it.

With credentials in a Secret, or another S3 API than AWS, it creates no roles.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pulumi

from components.platforms.aws.iam import ReadScope, StoreReader
from components.platforms.aws.lookups import look_up_if_permitted, look_up_kms_key
from components.platforms.aws.s3_bucket import ModelBucket
from components.storage.model_store import S3Store

if TYPE_CHECKING:
    from components.handles import ObjectStore
    from components.platforms.aws.cluster_spec import EksClusterHandle
    from components.storage.spec import S3StoreSpec


class AwsS3Store(S3Store):
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
        super().__init__(spec)
        self._spec = spec
        self._home = home
        self._method: Literal["podIdentity", "irsa"] = method
        self._namespace = namespace
        self._opts = opts
        self._region = spec.region or home.region
        self._bucket: pulumi.Input[str] = spec.bucket
        self._key_arn: pulumi.Input[str] | None = spec.kms_key_arn
        if spec.create is not None:
            bucket = ModelBucket(name, spec.bucket, spec.create, opts=opts)
            self._bucket, self._key_arn = bucket.bucket, bucket.key_arn
        elif not self._without_roles:
            lookup = pulumi.InvokeOptions(provider=opts.provider)
            self._bucket = pulumi.Output.from_input(_existing_bucket(name, spec, self._region, lookup))
            if spec.kms_key_arn is not None:
                self._key_arn = pulumi.Output.from_input(look_up_kms_key(spec.kms_key_arn, key=f"storage.{name}.kmsKeyArn", options=lookup))

    @property
    def _without_roles(self) -> bool:
        return self._spec.credentials is not None or self._spec.endpoint is not None

    def source(self, account: str, path: str) -> ObjectStore:
        """Return the store for the service account `account`, with a role that reads the directory `path`."""
        if self._without_roles:
            return self.objects
        scope = ReadScope(
            bucket=self._bucket,
            bucket_name=self._spec.bucket,
            prefix="/".join(part for part in (self._spec.prefix, path) if part),
            region=self._region,
            key_arn=self._key_arn,
        )
        reader = StoreReader(
            account,
            home=self._home,
            method=self._method,
            namespace=self._namespace,
            service_account=account,
            scope=scope,
            opts=self._opts,
        )
        return replace(self.objects, region=self._region, identity=reader.identity)


async def _existing_bucket(name: str, spec: S3StoreSpec, region: str, lookup: pulumi.InvokeOptions) -> str:
    """Return the existing bucket of the store `name`. Raises pulumi.RunError if it does not exist in `region`."""
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
            f"{path}.region: the bucket {spec.bucket!r} is in {bucket_region}, not in {region}. Set region: {bucket_region}."
        )
    return spec.bucket
