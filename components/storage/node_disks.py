"""A directory on every node of a pool as one volume: each pod mounts the disk of its own node.

This is a `local` volume whose node affinity selects the whole pool (like KServe's LocalModelNodeGroup, v0.20.0). Restricted pods may
mount it, unlike a hostPath. It neither creates the directory nor copies between nodes.
"""

from __future__ import annotations

import json

import pulumi
from pulumi_kubernetes.core import v1 as core

from components.handles import NodeTarget, VolumeClaim
from components.naming import content_key
from components.storage.disk_spec import NodeDiskStoreSpec
from components.storage.static_volume import static_claim
from kube.quantity import bytes_of


class NodeDisks(pulumi.ComponentResource):
    """The volume of a pool's node disks and its claim, bound by name; exports `claim`."""

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
        node_labels = dict(sorted(target.node_selector.items()))
        key = content_key(spec.path, json.dumps(node_labels))
        volume = core.PersistentVolumeSpecArgs(
            # The only mode of a local volume. Kubernetes enforces it per attached volume, and a local volume is never attached.
            access_modes=["ReadWriteOnce"],
            capacity={"storage": spec.capacity},
            local=core.LocalVolumeSourceArgs(path=spec.path),
            node_affinity=core.VolumeNodeAffinityArgs(required=_node_selector(node_labels)),
        )
        claim_name, claim = static_claim(name, "disk", volume, key=key, scope=scope, namespace=namespace, parent=self)
        self.claim = VolumeClaim(
            name=claim_name,
            origin=f"disk://{target.pool}{spec.path}",
            capacity_bytes=bytes_of(spec.capacity),
            nodes=target,
            ready=claim,
        )
        self.register_outputs({"claim": claim_name})


def _node_selector(node_labels: dict[str, str]) -> core.NodeSelectorArgs:
    expressions = [core.NodeSelectorRequirementArgs(key=key, operator="In", values=[value]) for key, value in node_labels.items()]
    return core.NodeSelectorArgs(node_selector_terms=[core.NodeSelectorTermArgs(match_expressions=expressions)])
