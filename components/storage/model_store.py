"""The stores of a stack as components: each lends a handle, none creates a bucket or a share.

An NFS share becomes a static volume and its claim. What needs no Kubernetes object at all (a bucket, a server, a claim that
exists) is a plain value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.handles import HubStore, NodeTarget, ObjectStore, VolumeClaim, WebStore
from components.naming import bounded, content_key, labels
from components.spec import bytes_of
from components.storage.disk_spec import ClaimStoreSpec, NodeDiskStoreSpec
from components.storage.node_disks import NodeDisks
from components.storage.spec import NfsStoreSpec, S3StoreSpec
from components.storage.web_spec import HttpStoreSpec, HubStoreSpec

_SHARED = ["ReadWriteMany"]


class NfsStore(pulumi.ComponentResource):
    """An NFS share as a static PersistentVolume and its claim (RWX), bound to each other by name; lends `claim`.

    Both names carry the content of the spec: volumes and claims are immutable, so a change makes new ones beside the old,
    servers move over, and no deletion waits for a claim in use. The share's data stays where it is.
    Volumes belong to the whole cluster: `scope`, the namespace's written name, tells this stack's from another's. The live
    `namespace` is known only once it exists, and a volume's name has to stand in the first plan already.
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
        key = content_key(name, spec.server, spec.path, spec.capacity, *spec.mount_options)
        claim_name = bounded(name, key)
        size = {"storage": spec.capacity}
        volume_name = bounded(f"{scope}-{name}", content_key(scope, key))
        volume = core.PersistentVolume(
            f"{name}-volume",
            metadata=meta.ObjectMetaArgs(name=volume_name, labels=labels("storage", name)),
            spec=core.PersistentVolumeSpecArgs(
                access_modes=_SHARED,
                storage_class_name="",
                capacity=size,
                persistent_volume_reclaim_policy="Retain",
                mount_options=list(spec.mount_options),
                nfs=core.NFSVolumeSourceArgs(server=spec.server, path=spec.path),
                claim_ref=core.ObjectReferenceArgs(namespace=namespace, name=claim_name),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        claim = core.PersistentVolumeClaim(
            name,
            metadata=meta.ObjectMetaArgs(name=claim_name, namespace=namespace, labels=labels("storage", name)),
            spec=core.PersistentVolumeClaimSpecArgs(
                access_modes=_SHARED,
                # An empty class keeps the cluster's default class from provisioning a disk of its own.
                storage_class_name="",
                volume_name=volume_name,
                resources=core.VolumeResourceRequirementsArgs(requests=size),
            ),
            # The name is known before the volume is there, so the edge is said here.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[volume]),
        )
        self.claim = VolumeClaim(
            name=claim_name, origin=f"nfs://{spec.server}{spec.path}", capacity_bytes=bytes_of(spec.capacity), ready=claim
        )
        self.register_outputs({"claim": claim_name})


class S3Store:
    """An S3 bucket that exists; lends `objects`. It registers nothing, since there is nothing to provision."""

    objects: ObjectStore

    def __init__(self, spec: S3StoreSpec) -> None:
        self.objects = ObjectStore(
            bucket=spec.bucket,
            prefix=spec.prefix,
            region=spec.region,
            endpoint=spec.endpoint,
            path_style=spec.endpoint is not None if spec.path_style is None else spec.path_style,
            credentials=None if spec.credentials is None else spec.credentials.secret_name,
        )

    def reader(self, account: str, path: str) -> ObjectStore:  # noqa: ARG002 - a store with roles of its own reads them
        """The store as the service account `account` reads the directory `path` of it: here, as everybody does."""
        return self.objects


class WebSource:
    """A server or a hub that models are fetched from; lends `files`. It registers nothing."""

    files: WebStore | HubStore

    def __init__(self, spec: HttpStoreSpec | HubStoreSpec) -> None:
        secret = None if spec.credentials is None else spec.credentials.secret_name
        match spec:
            case HttpStoreSpec():
                self.files = WebStore(url=spec.url, credentials=secret)
            case HubStoreSpec():
                self.files = HubStore(endpoint=spec.endpoint, credentials=secret)
            case _:
                assert_never(spec)


class ClaimStore:
    """A claim that exists; lends `claim`. It registers nothing, and whether the claim is there shows when a pod mounts it."""

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
    """The store that `spec` describes, by its kind. `namespace` and `scope` are those of `NfsStore`, `targets` the pools by name."""
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
