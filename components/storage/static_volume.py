"""Existing storage as a PersistentVolume and the only claim that can bind it; nothing is provisioned."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.naming import bounded, content_key, labels

# The claim names its volume, so its size does not matter. The request of a bound claim cannot be changed; the capacity of the
# volume, which `kubectl get pvc` shows for the claim, is informational and can be changed.
_REQUEST = "1Mi"


def static_claim(
    name: str,
    prefix: str,
    volume_spec: core.PersistentVolumeSpecArgs,
    *,
    key: str,
    scope: str,
    namespace: pulumi.Input[str],
    parent: pulumi.Resource,
    after: Sequence[pulumi.Resource] = (),
) -> tuple[str, core.PersistentVolumeClaim]:
    """Create the volume and the claim of the store `name`; return the claim's name and the claim.

    `volume_spec` has the location, access modes and capacity of the volume; class, reclaim policy and binding are added here.
    Both objects are named `prefix` and `key` in Kubernetes and in their URNs, where `key` identifies the location: volumes and
    claims are immutable, so a new location gets new objects next to the old ones, servers move over, and no deletion waits for
    a claim in use. The store's name is only a label, so renaming a store changes nothing. The stored files are not touched.
    Volumes are cluster-scoped: `scope`, the configured name of the namespace, separates stacks. The live `namespace` is known
    only once it exists, but the first plan needs the volume's name. `after` must exist before pods may mount the claim.
    """
    claim_name, volume_name = bounded(prefix, key), bounded(f"{scope}-{prefix}", content_key(scope, key))
    # An empty class prevents the cluster's default class from provisioning a disk.
    volume_spec.storage_class_name = ""
    volume_spec.persistent_volume_reclaim_policy = "Retain"
    volume_spec.claim_ref = core.ObjectReferenceArgs(namespace=namespace, name=claim_name)
    volume = core.PersistentVolume(
        volume_name,
        metadata=meta.ObjectMetaArgs(name=volume_name, labels=labels("storage", name)),
        spec=volume_spec,
        opts=pulumi.ResourceOptions(parent=parent),
    )
    claim = core.PersistentVolumeClaim(
        # The namespace is part of the URN: a claim in another namespace is another resource.
        volume_name,
        metadata=meta.ObjectMetaArgs(name=claim_name, namespace=namespace, labels=labels("storage", name)),
        spec=core.PersistentVolumeClaimSpecArgs(
            access_modes=volume_spec.access_modes,
            storage_class_name="",
            volume_name=volume_name,
            resources=core.VolumeResourceRequirementsArgs(requests={"storage": _REQUEST}),
        ),
        # The name is known before the volume exists, so the dependency is explicit.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[volume, *after]),
    )
    return claim_name, claim
