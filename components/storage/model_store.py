"""The model stores of a stack: each exports a handle, and none creates a bucket or an NFS export.

An NFS export becomes a static volume and its claim. Stores without Kubernetes objects (a bucket, a server, an existing claim) are
plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

import pulumi
from pulumi_kubernetes.core import v1 as core

from components.handles import HubStore, NodeTarget, ObjectStore, VolumeClaim, WebStore
from components.naming import content_key
from components.storage.disk_spec import ClaimStoreSpec, NodeDiskStoreSpec
from components.storage.node_disks import NodeDisks
from components.storage.spec import NfsStoreSpec, S3StoreSpec
from components.storage.static_volume import static_claim
from components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from kube.quantity import bytes_of


class NfsStore(pulumi.ComponentResource):
    """An NFS export as a static PersistentVolume and its claim (RWX), bound by name; exports `claim`.

    `namespace` and `scope` are those of `static_claim`, which also describes what a change of the spec does.
    """

    claim: VolumeClaim

    def __init__(
        self,
        name: str,
        spec: NfsStoreSpec,
        *,
        namespace: pulumi.Input[str],
        scope: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:storage:NfsStore", name, {"spec": spec.intent()}, opts)
        key = content_key(spec.server, spec.path, *spec.mount_options)
        volume = core.PersistentVolumeSpecArgs(
            access_modes=["ReadWriteMany"],
            capacity={"storage": spec.capacity},
            nfs=core.NFSVolumeSourceArgs(server=spec.server, path=spec.path),
            mount_options=list(spec.mount_options),
        )
        claim_name, claim = static_claim(name, "nfs", volume, key=key, scope=scope, namespace=namespace, parent=self)
        self.claim = VolumeClaim(
            name=claim_name, origin=f"nfs://{spec.server}{spec.path}", capacity_bytes=bytes_of(spec.capacity), ready=claim
        )
        self.register_outputs({"claim": claim_name})


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

    def reader(self, account: str, path: str) -> ObjectStore:  # noqa: ARG002 - a subclass with roles uses them
        """Return the store for the service account `account` that reads the directory `path`: here the same for all."""
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


class ClaimStore:
    """An existing claim; exports `claim` and registers nothing. If it does not exist, pods fail to mount it."""

    claim: VolumeClaim

    def __init__(self, spec: ClaimStoreSpec) -> None:
        capacity = None if spec.capacity is None else bytes_of(spec.capacity)
        self.claim = VolumeClaim(name=spec.claim_name, origin=f"pvc://{spec.claim_name}", capacity_bytes=capacity)


PlainStoreSpec: TypeAlias = S3StoreSpec | NfsStoreSpec | ClaimStoreSpec | NodeDiskStoreSpec | HttpStoreSpec | HubStoreSpec
PlainStore: TypeAlias = NfsStore | S3Store | ClaimStore | NodeDisks | WebSource


def model_store(
    name: str,
    spec: PlainStoreSpec,
    *,
    namespace: pulumi.Input[str],
    scope: str,
    targets: Mapping[str, NodeTarget],
    opts: pulumi.ResourceOptions | None = None,
) -> PlainStore:
    """Create the store of `spec` by its kind. `namespace` and `scope` are those of `NfsStore`, `targets` the pools by name."""
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
            assert_never(spec)
