"""An S3 store of a stack on EKS: the bucket where it is to be created, and a role for each service account that reads it.

Where a Secret holds the credentials, or the S3 API is not AWS', it is a store like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pulumi

from components.identity.store_reader import Reads, StoreReader
from components.lookups import found, kms_key
from components.storage.model_store import S3Store
from components.storage.s3_bucket import ModelBucket

if TYPE_CHECKING:
    from components.handles import EksClusterHandle, ObjectStore
    from components.storage.spec import S3StoreSpec


class AwsS3Store(S3Store):
    """An S3 bucket at AWS; lends each reader the store with a role of its own."""

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
            made = ModelBucket(name, spec.bucket, spec.create, opts=opts)
            self._bucket, self._key_arn = made.bucket, made.key_arn
        elif not self._without_roles:
            look = pulumi.InvokeOptions(provider=opts.provider)
            self._bucket = pulumi.Output.from_input(_bucket(name, spec, self._region, look))
            if spec.kms_key_arn is not None:
                self._key_arn = pulumi.Output.from_input(kms_key(spec.kms_key_arn, key=f"storage.{name}.kmsKeyArn", options=look))

    @property
    def _without_roles(self) -> bool:
        return self._spec.credentials is not None or self._spec.endpoint is not None

    def reader(self, account: str, path: str) -> ObjectStore:
        """The store as the service account `account` reads the directory `path` of it."""
        if self._without_roles:
            return self.objects
        reads = Reads(
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
            reads=reads,
            opts=self._opts,
        )
        return replace(self.objects, region=self._region, identity=reader.identity)


async def _bucket(name: str, spec: S3StoreSpec, region: str, look: pulumi.InvokeOptions) -> str:
    """The bucket that the store `name` adopts, once it is known to be there and in `region`."""
    here = f"storage.{name}"
    told = await found(
        "aws:s3/getBucket:getBucket",
        {"bucket": spec.bucket},
        named=spec.bucket,
        key=f"{here}.bucket",
        remedy="correct it, check whose credentials these are, or add create: {} to create it",
        options=look,
    )
    elsewhere = told.get("bucketRegion")
    if elsewhere not in (None, region):
        raise pulumi.RunError(f"{here}.region: the bucket {spec.bucket!r} is in {elsewhere}, not in {region}; write region: {elsewhere}")
    return spec.bucket
