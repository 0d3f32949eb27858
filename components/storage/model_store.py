"""The model stores that need no cloud: each exports a handle, and none creates a bucket or an NFS export.

An NFS export becomes a static volume and its claim. Stores without Kubernetes objects (a bucket, a server, an existing claim) are
plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, assert_never

import pulumi

from components.handles import HubStore, ModelSource, NodeTarget, ObjectStore, VolumeClaim, WebStore
from components.storage.fields import Store
from components.storage.spec import S3StoreSpec
from components.storage.static_volume import MountedStore, NfsStore, NodeDisks
from components.storage.volume_spec import ClaimStoreSpec, NfsStoreSpec, NodeDiskStoreSpec
from components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from kube.quantity import bytes_of


class ModelStore(Protocol):
    """A store of a stack, whatever its kind."""

    def source(self, account: str, path: str) -> ModelSource:
        """Return the handle for the service account `account` that reads the directory `path`."""
        ...


class S3Store:
    """An existing S3 bucket; exports `objects` and registers nothing."""

    objects: ObjectStore

    def __init__(self, spec: S3StoreSpec) -> None:
        self.objects = ObjectStore(
            bucket=spec.bucket,
            prefix=spec.prefix,
            region=spec.region,
            endpoint=spec.endpoint,
            path_style=spec.endpoint is not None if spec.path_style is None else spec.path_style,
            credentials=None if spec.credentials is None else spec.credentials.secret_name,
            ca=None if spec.ca_bundle is None else spec.ca_bundle.bundle,
            networks=spec.networks,
        )

    def source(self, account: str, path: str) -> ObjectStore:
        """Return the handle for the service account `account` that reads the directory `path`: without roles, the same for all."""
        del account, path
        return self.objects


class WebSource:
    """A server or a hub with models; exports `files` and registers nothing."""

    files: WebStore | HubStore

    def __init__(self, spec: HttpStoreSpec | HubStoreSpec) -> None:
        secret = None if spec.credentials is None else spec.credentials.secret_name
        ca = None if spec.ca_bundle is None else spec.ca_bundle.bundle
        match spec:
            case HttpStoreSpec():
                self.files = WebStore(url=spec.url, credentials=secret, ca=ca, networks=spec.networks)
            case HubStoreSpec():
                self.files = HubStore(endpoint=spec.endpoint, credentials=secret, ca=ca, networks=spec.networks)
            case _:
                assert_never(spec)

    def source(self, account: str, path: str) -> WebStore | HubStore:
        """Return the handle, the same for all readers."""
        del account, path
        return self.files


class ClaimStore(MountedStore):
    """An existing claim; exports `claim` and registers nothing. If it does not exist, pods fail to mount it."""

    def __init__(self, spec: ClaimStoreSpec) -> None:
        capacity = None if spec.capacity is None else bytes_of(spec.capacity)
        self.claim = VolumeClaim(name=spec.claim_name, origin=f"pvc://{spec.claim_name}", capacity_bytes=capacity)


def model_store(
    name: str,
    spec: Store,
    *,
    namespace: pulumi.Input[str],
    scope: str,
    targets: Mapping[str, NodeTarget],
    opts: pulumi.ResourceOptions | None = None,
) -> ModelStore:
    """Create the store of `spec` by its kind. `namespace` and `scope` are those of `static_claim`, `targets` the pools by name."""
    match spec:
        case NfsStoreSpec():
            return NfsStore(name, spec, namespace=namespace, scope=scope, opts=opts)
        case NodeDiskStoreSpec():
            return NodeDisks(name, spec, target=targets[spec.pool], namespace=namespace, scope=scope, opts=opts)
        case S3StoreSpec():
            return S3Store(spec)
        case ClaimStoreSpec():
            return ClaimStore(spec)
        case HttpStoreSpec() | HubStoreSpec():
            return WebSource(spec)
        case _:
            raise TypeError(f"storage.{name}: a store of kind {spec.kind} needs its cloud's platform")
