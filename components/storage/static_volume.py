"""A volume that exists already, as a PersistentVolume and the claim that alone may bind it; nothing is provisioned here."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.naming import bounded, content_key, labels


def static_claim(
    name: str,
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
    Both names carry `key`, the content of the spec: volumes and claims are immutable, so a change makes new ones beside the
    old, servers move over, and no deletion waits for a claim in use. What is stored stays where it is.
    Volumes belong to the whole cluster: `scope`, the namespace's written name, tells this stack's from another's. The live
    `namespace` is known only once it exists, and a volume's name has to stand in the first plan already.
    `after` is what has to be there before pods may mount the claim.
    """
    claim_name, volume_name = bounded(name, key), bounded(f"{scope}-{name}", content_key(scope, key))
    # An empty class keeps the cluster's default class from provisioning a disk of its own.
    volume_spec.storage_class_name = ""
    volume_spec.persistent_volume_reclaim_policy = "Retain"
    volume_spec.claim_ref = core.ObjectReferenceArgs(namespace=namespace, name=claim_name)
    volume = core.PersistentVolume(
        f"{name}-volume",
        metadata=meta.ObjectMetaArgs(name=volume_name, labels=labels("storage", name)),
        spec=volume_spec,
        opts=pulumi.ResourceOptions(parent=parent),
    )
    claim = core.PersistentVolumeClaim(
        name,
        metadata=meta.ObjectMetaArgs(name=claim_name, namespace=namespace, labels=labels("storage", name)),
        spec=core.PersistentVolumeClaimSpecArgs(
            access_modes=volume_spec.access_modes,
            storage_class_name="",
            volume_name=volume_name,
            resources=core.VolumeResourceRequirementsArgs(requests=volume_spec.capacity),
        ),
        # The name is known before the volume is there, so the edge is said here.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[volume, *after]),
    )
    return claim_name, claim
