"""A directory on every node of a pool as one volume: whichever node a pod lands on, it mounts that node's own disk.

A `local` volume whose node affinity takes the whole pool does this (the way of KServe's LocalModelNodeGroup, v0.20.0), and
restricted pods may mount it, which a hostPath they may not. It neither makes the directory nor copies between nodes.
"""

from __future__ import annotations

import json

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.handles import NodeTarget, VolumeClaim
from components.naming import bounded, content_key, labels
from components.spec import bytes_of
from components.storage.disk_spec import NodeDiskStoreSpec

# The only mode of a local volume. It counts nodes where volumes are attached, and a local one never is.
_MODES = ["ReadWriteOnce"]


class NodeDisks(pulumi.ComponentResource):
    """The volume of a pool's node disks and its claim, bound to each other by name; lends `claim`.

    Both names carry the content of the spec, as those of any share: volumes and claims are immutable.
    """

    claim: VolumeClaim

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
        selected = dict(sorted(target.node_selector.items()))
        key = content_key(name, spec.path, spec.capacity, json.dumps(selected))
        claim_name, volume_name = bounded(name, key), bounded(f"{scope}-{name}", content_key(scope, key))
        size = {"storage": spec.capacity}
        volume = core.PersistentVolume(
            f"{name}-volume",
            metadata=meta.ObjectMetaArgs(name=volume_name, labels=labels("storage", name)),
            spec=core.PersistentVolumeSpecArgs(
                access_modes=_MODES,
                storage_class_name="",
                capacity=size,
                persistent_volume_reclaim_policy="Retain",
                local=core.LocalVolumeSourceArgs(path=spec.path),
                node_affinity=core.VolumeNodeAffinityArgs(required=_nodes(selected)),
                claim_ref=core.ObjectReferenceArgs(namespace=namespace, name=claim_name),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        claim = core.PersistentVolumeClaim(
            name,
            metadata=meta.ObjectMetaArgs(name=claim_name, namespace=namespace, labels=labels("storage", name)),
            spec=core.PersistentVolumeClaimSpecArgs(
                access_modes=_MODES,
                storage_class_name="",
                volume_name=volume_name,
                resources=core.VolumeResourceRequirementsArgs(requests=size),
            ),
            # The name is known before the volume is there, so the edge is said here.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[volume]),
        )
        self.claim = VolumeClaim(
            name=claim_name,
            origin=f"disk://{target.pool}{spec.path}",
            capacity_bytes=bytes_of(spec.capacity),
            nodes=target,
            ready=claim,
        )
        self.register_outputs({"claim": claim_name})


def _nodes(selected: dict[str, str]) -> core.NodeSelectorArgs:
    expressions = [core.NodeSelectorRequirementArgs(key=key, operator="In", values=[value]) for key, value in selected.items()]
    return core.NodeSelectorArgs(node_selector_terms=[core.NodeSelectorTermArgs(match_expressions=expressions)])
