"""Existing storage as a PersistentVolume and the only claim that can bind it: NFS exports and disks
of nodes. Nothing is provisioned.
"""

import json
from collections.abc import Sequence
from typing import cast

import pulumi

from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import core
from inferplan.components.naming import bounded, content_key, labels
from inferplan.components.sources import VolumeClaim
from inferplan.components.storage.fields import StaticVolume, Store
from inferplan.components.storage.volume_spec import NodeDiskStoreSpec

# The claim names its volume, so its size does not matter. The request of a bound claim cannot be
# changed; the capacity of the volume, which `kubectl get pvc` shows for the claim, is informational
# and can be changed.
_REQUEST = "1Mi"


def static_claim(
    name: str,
    prefix: str,
    volume_spec: core.PersistentVolumeSpecArgsDict,
    *,
    key: str,
    scope: str,
    namespace: pulumi.Input[str],
    parent: pulumi.Resource,
    after: Sequence[pulumi.Resource] = (),
) -> tuple[str, core.PersistentVolumeClaim]:
    """Create the volume and the claim of the store `name`; return the claim's name and the claim.

    `volume_spec` has the location, access modes and capacity of the volume; class, reclaim policy
    and binding are added here. Both objects are named `prefix` and `key` in Kubernetes and in their
    URNs, where `key` identifies the location: volumes and claims are immutable, so a new location
    gets new objects next to the old ones, servers move over, and no deletion waits for a claim in
    use. The store's name is only a label, so renaming a store changes nothing. The stored files are
    not touched. Volumes are cluster-scoped: `scope`, the configured name of the namespace,
    separates stacks. The live `namespace` is known only once it exists, but the first plan needs
    the volume's name. `after` must exist before pods may mount the claim.
    """
    claim_name, volume_name = (
        bounded(prefix, key),
        bounded(f"{scope}-{prefix}", content_key(scope, key)),
    )
    volume = core.PersistentVolume(
        volume_name,
        metadata={"name": volume_name, "labels": labels("storage", name)},
        spec={
            **volume_spec,
            # An empty class prevents the cluster's default class from provisioning a disk.
            "storage_class_name": "",
            "persistent_volume_reclaim_policy": "Retain",
            "claim_ref": {"namespace": namespace, "name": claim_name},
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )
    claim = core.PersistentVolumeClaim(
        # The namespace is part of the URN: a claim in another namespace is another resource.
        volume_name,
        metadata={"name": claim_name, "namespace": namespace, "labels": labels("storage", name)},
        spec={
            "access_modes": volume_spec["access_modes"],
            "storage_class_name": "",
            "volume_name": volume_name,
            "resources": {"requests": {"storage": _REQUEST}},
        },
        # The name is known before the volume exists, so the dependency is explicit.
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[volume, *after]),
    )
    return claim_name, claim


class StaticStore(pulumi.ComponentResource):
    """Existing storage on the network as a static PersistentVolume and its claim (RWX), bound by
    name, as `static_claim` makes them; exports `claim`.
    """

    def __init__(
        self,
        name: str,
        spec: Store,
        volume: StaticVolume,
        *,
        namespace: pulumi.Input[str],
        scope: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            f"inferplan:storage:{volume.component}", name, {"spec": spec.intent()}, opts
        )
        claim_name, claim = static_claim(
            name,
            volume.prefix,
            cast("core.PersistentVolumeSpecArgsDict", volume.spec),
            key=volume.key,
            scope=scope,
            namespace=namespace,
            parent=self,
        )
        self.claim: VolumeClaim = VolumeClaim(name=claim_name, origin=volume.origin, ready=claim)
        self.register_outputs({"claim": claim_name})


class NodeDisks(pulumi.ComponentResource):
    """A directory on every node of a pool as one volume and its claim: each pod mounts the disk of
    the node that it runs on; exports `claim`.

    This is a `local` volume whose node affinity selects the whole pool (like KServe's
    LocalModelNodeGroup, v0.20.0). Restricted pods may mount it, unlike a hostPath. It neither
    creates the directory nor copies between nodes.
    """

    def __init__(
        self,
        name: str,
        spec: NodeDiskStoreSpec,
        *,
        target: NodeTarget,
        namespace: pulumi.Input[str],
        scope: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:storage:NodeDisks", name, {"spec": spec.intent()}, opts)
        node_labels = dict(sorted(target.node_selector.items()))
        key = content_key(spec.path, json.dumps(node_labels))
        nodes: list[core.NodeSelectorRequirementArgsDict] = [
            {"key": label, "operator": "In", "values": [value]}
            for label, value in node_labels.items()
        ]
        volume: core.PersistentVolumeSpecArgsDict = {
            # The only mode of a local volume. Kubernetes enforces it per attached volume, and a
            # local volume is never attached.
            "access_modes": ["ReadWriteOnce"],
            "capacity": {"storage": spec.capacity},
            "local": {"path": spec.path},
            "node_affinity": {"required": {"node_selector_terms": [{"match_expressions": nodes}]}},
        }
        claim_name, claim = static_claim(
            name, "disk", volume, key=key, scope=scope, namespace=namespace, parent=self
        )
        self.claim: VolumeClaim = VolumeClaim(
            name=claim_name, origin=f"disk://{target.pool}{spec.path}", nodes=target, ready=claim
        )
        self.register_outputs({"claim": claim_name})
