"""The model stores that need no cloud: each gives its readers a handle; an NFS export becomes a
static volume and its claim.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pulumi

from inferplan.components.handles import (
    HubStore,
    ModelSource,
    NodeTarget,
    ObjectStore,
    VolumeClaim,
    WebStore,
)
from inferplan.components.network import RemoteStore
from inferplan.components.storage.fields import Store
from inferplan.components.storage.static_volume import NfsStore, NodeDisks, nfs_claim
from inferplan.components.storage.volume_spec import ClaimStoreSpec, NfsStoreSpec, NodeDiskStoreSpec
from inferplan.components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from inferplan.components.stores import S3StoreSpec


class ModelStore(Protocol):
    """A store of a stack, whatever its kind."""

    def source(self, account: str, path: str) -> ModelSource:
        """Return the handle for the service account `account` that reads the directory `path`."""
        ...


@dataclass(frozen=True)
class SharedStore:
    """A store with the same handle for all readers."""

    handle: ModelSource

    def source(self, account: str, path: str) -> ModelSource:
        del account, path
        return self.handle


def remote_store(spec: S3StoreSpec | HttpStoreSpec | HubStoreSpec) -> RemoteStore:
    secret = None if spec.credentials is None else spec.credentials.secret_name
    ca = None if spec.ca_bundle is None else spec.ca_bundle.bundle
    match spec:
        case HttpStoreSpec():
            return WebStore(url=spec.url, credentials=secret, ca=ca, networks=spec.networks)
        case HubStoreSpec():
            return HubStore(
                endpoint=spec.endpoint, credentials=secret, ca=ca, networks=spec.networks
            )
        case S3StoreSpec():
            return object_store(spec)


def object_store(spec: S3StoreSpec) -> ObjectStore:
    return ObjectStore(
        bucket=spec.bucket,
        prefix=spec.prefix,
        region=spec.region,
        endpoint=spec.endpoint,
        path_style=spec.endpoint is not None if spec.path_style is None else spec.path_style,
        credentials=None if spec.credentials is None else spec.credentials.secret_name,
        ca=None if spec.ca_bundle is None else spec.ca_bundle.bundle,
        networks=spec.networks,
    )


def source_of(
    spec: NfsStoreSpec | ClaimStoreSpec | S3StoreSpec | HttpStoreSpec | HubStoreSpec,
) -> ModelSource:
    """Return the handle of a store by its settings alone, without the resources that make it."""
    match spec:
        case NfsStoreSpec():
            return nfs_claim(spec)
        case ClaimStoreSpec():
            # If the claim does not exist, pods fail to mount it.
            return VolumeClaim(name=spec.claim_name, origin=f"pvc://{spec.claim_name}")
        case S3StoreSpec() | HttpStoreSpec() | HubStoreSpec():
            return remote_store(spec)


def model_store(
    name: str,
    spec: Store,
    *,
    namespace: pulumi.Input[str],
    scope: str,
    targets: Mapping[str, NodeTarget],
    opts: pulumi.ResourceOptions | None = None,
) -> ModelStore:
    """Create the store of `spec` by its kind. `namespace` and `scope` are those of `static_claim`,
    `targets` the pools by name.
    """
    match spec:
        case NfsStoreSpec():
            return SharedStore(
                NfsStore(name, spec, namespace=namespace, scope=scope, opts=opts).claim
            )
        case NodeDiskStoreSpec():
            return SharedStore(
                NodeDisks(
                    name,
                    spec,
                    target=targets[spec.pool],
                    namespace=namespace,
                    scope=scope,
                    opts=opts,
                ).claim
            )
        case ClaimStoreSpec() | S3StoreSpec() | HttpStoreSpec() | HubStoreSpec():
            return SharedStore(source_of(spec))
        case _:
            raise TypeError(
                f"storage.{name}: a store of kind {spec.kind} needs its cloud's platform"
            )
