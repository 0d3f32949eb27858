"""A volume that exists already, as a PersistentVolume and the claim that alone may bind it; nothing is provisioned here."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.naming import bounded, content_key, labels

# The claim names its volume, so it has nothing to choose by size. A bound claim's request cannot be changed, and the capacity
# of the volume, which `kubectl get pvc` shows for the claim too, is informational and may be.
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
    """The claim of the store `name`, by its written name and as a resource.

    `volume_spec` says where the volume is, its access modes and its capacity; class, retention and binding are added here.
    Both objects are called `prefix` and `key`, the place that they stand for, in Kubernetes and in their URNs: volumes and
    claims are immutable, so another place gets new ones next to the old, servers move over, and no deletion waits for a
    claim in use. The store's own name is a label, so that a renamed store keeps them. What is stored stays where it is.
    Volumes belong to the whole cluster: `scope`, the namespace's written name, tells this stack's from another's. The live
    `namespace` is known only once it exists, and a volume's name has to stand in the first plan already.
    `after` is what has to be there before pods may mount the claim.
    """
    claim_name, volume_name = bounded(prefix, key), bounded(f"{scope}-{prefix}", content_key(scope, key))
    # An empty class keeps the cluster's default class from provisioning a disk of its own.
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
        # Its namespace is part of what it is, so it is part of its URN: a claim of another namespace is another resource.
        volume_name,
        metadata=meta.ObjectMetaArgs(name=claim_name, namespace=namespace, labels=labels("storage", name)),
        spec=core.PersistentVolumeClaimSpecArgs(
            access_modes=volume_spec.access_modes,
            storage_class_name="",
            volume_name=volume_name,
            resources=core.VolumeResourceRequirementsArgs(requests={"storage": _REQUEST}),
        ),
        # The name is known before the volume is there, so the edge is said here.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[volume, *after]),
    )
    return claim_name, claim
