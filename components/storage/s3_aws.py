"""An S3 store of a stack on EKS: the bucket where it is to be created, and a role for each service account that reads it.

Where a Secret holds the credentials, or the S3 API is not AWS', it is a store like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from components.identity.store_reader import Reads, StoreReader
from components.storage.model_store import S3Store
from components.storage.s3_bucket import ModelBucket

if TYPE_CHECKING:
    import pulumi

    from components.handles import EksHome, ObjectStore
    from components.storage.spec import S3StoreSpec


class AwsS3Store(S3Store):
    """An S3 bucket at AWS; lends each reader the store with a role of its own."""

    def __init__(
        self,
        name: str,
        spec: S3StoreSpec,
        *,
        home: EksHome,
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
        self._bucket = None if spec.create is None else ModelBucket(name, spec.bucket, spec.create, opts=opts)

    def reader(self, account: str, path: str) -> ObjectStore:
        """The store as the service account `account` reads the directory `path` of it."""
        spec = self._spec
        if spec.credentials is not None or spec.endpoint is not None:
            return self.objects
        region = spec.region or self._home.region
        reads = Reads(
            bucket=spec.bucket if self._bucket is None else self._bucket.bucket,
            bucket_name=spec.bucket,
            prefix="/".join(part for part in (spec.prefix, path) if part),
            region=region,
            key_arn=spec.kms_key_arn if self._bucket is None else self._bucket.key_arn,
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
        return replace(self.objects, region=region, identity=reader.identity)
