"""A pool in EKS Auto Mode: a NodeClass for its disk and network, and Karpenter NodePools from which
EKS starts its nodes.

Sources: EKS user guide, "Create a Node Class for Amazon EKS", "Create a Node Pool for EKS Auto
Mode", "Static-Capacity Node Pools in EKS Auto Mode", "Deploy an accelerated workload", read
2026-11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi

from inferplan.components.fields import present
from inferplan.components.kubernetes import CustomResource, meta
from inferplan.components.naming import MAX_NAME, bounded, content_key
from inferplan.components.platforms.aws.launch_template import root_volume_bytes
from inferplan.kube.names import ZONE_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferplan.components.handles import NodeTarget
    from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
    from inferplan.components.platforms.aws.node_pool import NodeIdentity
    from inferplan.components.platforms.aws.pool_spec import EksPool

_GI = 2**30
_KARPENTER = "karpenter.sh"
_EKS = "eks.amazonaws.com"
_CAPACITY_TYPES = {"ON_DEMAND": "on-demand", "SPOT": "spot"}
# The default delay of the Cluster Autoscaler for a node that it no longer needs.
_EMPTY_FOR = "10m"
# The longest time that a node waits for its pods when it is replaced; the value of AWS's samples.
_DRAIN_LIMIT = "24h0m0s"


class AutoNodePool(pulumi.ComponentResource):
    """One pool of EC2 instances that EKS Auto Mode starts and ends; `target` is its handle for
    pods.

    `size.min` nodes are a static NodePool, which keeps them without pods; all others come and go
    with the pods. `images` is the number of different images of its models, for the size of the
    disk.
    """

    def __init__(
        self,
        name: str,
        spec: EksPool,
        *,
        home: EksClusterHandle,
        identity: NodeIdentity,
        images: int = 1,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("inferplan:nodes:AutoNodePool", name, {"spec": spec.intent()}, opts)
        self.target: NodeTarget = spec.target(name)
        class_name = _object_name(name, "auto")
        node_class = _object(
            class_name,
            f"{_EKS}/v1",
            "NodeClass",
            _node_class(spec, home, identity, images),
            self,
            identity.ready,
        )
        sizes: dict[str, dict[str, Any]] = {}
        if spec.size.min:
            # One more while a node is replaced, as a managed node group has.
            sizes["static"] = {
                "replicas": spec.size.min,
                "limits": {"nodes": str(spec.size.min + 1)},
            }
        if spec.size.max > spec.size.min:
            sizes["auto"] = {"limits": _limits(spec, spec.size.max - spec.size.min)}
        self.ready: tuple[pulumi.Resource, ...] = tuple(
            _object(
                _object_name(name, kind),
                f"{_KARPENTER}/v1",
                "NodePool",
                _node_pool(spec, self.target, class_name, size),
                self,
                [node_class],
            )
            for kind, size in sizes.items()
        )
        self.register_outputs(
            {
                "nodes": self.target.nodes,
                "accelerators": self.target.nodes * self.target.capacity.accelerators,
            }
        )


def _object_name(pool: str, kind: str) -> str:
    """Return the name of an object of `pool`; it never equals those of EKS: `default`, `system`,
    `general-purpose`.
    """
    name = f"{pool}-{kind}"
    return name if len(name) <= MAX_NAME else bounded(name, content_key(name))


def _object(
    name: str,
    api_version: str,
    kind: str,
    spec: dict[str, Any],
    parent: pulumi.Resource,
    after: Sequence[pulumi.Resource],
) -> CustomResource:
    # EKS sets conditions on it and does not become Ready before the first node is needed.
    metadata: meta.ObjectMetaArgsDict = {
        "name": name,
        "annotations": {"pulumi.com/skipAwait": "true"},
    }
    options = pulumi.ResourceOptions(parent=parent, depends_on=list(after))
    return CustomResource(
        name, api_version=api_version, kind=kind, metadata=metadata, spec=spec, opts=options
    )


def _node_class(
    spec: EksPool, home: EksClusterHandle, identity: NodeIdentity, images: int
) -> dict[str, Any]:
    """Return the spec of the NodeClass.

    A disk smaller than the NVMe disks of a node makes EKS join these and keep images, logs and
    emptyDir volumes on them.
    """
    node_class: dict[str, Any] = {
        "role": identity.name,
        "subnetSelectorTerms": _subnets(spec, home),
        "securityGroupSelectorTerms": [
            {"id": each}
            for each in (home.security_group, identity.group, *(spec.security_groups or ()))
        ],
        "networkPolicy": "DefaultAllow",
        "ephemeralStorage": {
            "size": f"{-(-root_volume_bytes(spec, images) // _GI)}Gi",
            **present({"iops": spec.root_volume.iops, "throughput": spec.root_volume.throughput}),
        },
    }
    if spec.capacity_reservation is not None:
        node_class["capacityReservationSelectorTerms"] = [{"id": spec.capacity_reservation.id}]
    return node_class


def _subnets(spec: EksPool, home: EksClusterHandle) -> Any:
    zones = spec.only_zones
    chosen: list[Any] = list(spec.subnets or ()) or [
        subnet for zone, subnet in home.subnets.items() if zones is None or zone in zones
    ]
    if chosen:
        return [{"id": subnet} for subnet in chosen]
    return pulumi.Output.from_input(home.own_subnets).apply(
        lambda subnets: [{"id": subnet} for subnet in subnets]
    )


def _node_pool(
    spec: EksPool, target: NodeTarget, node_class: str, size: dict[str, Any]
) -> dict[str, Any]:
    """Return the spec of a NodePool of `size`: `replicas` nodes, or as many as pods need up to the
    limits.

    Consolidation ends empty nodes only: it never evicts a pod that serves. EKS replaces nodes for a
    new image and at the age of 14 days, `update.maxUnavailable` at once, and respects disruption
    budgets for a day.
    """
    static = "replicas" in size
    # Karpenter tries spot before on-demand; the nodes of size.min are of the last type, as in node
    # groups.
    bought = spec.capacity_types[-1:] if static else spec.capacity_types
    capacity_types = (
        ["reserved"] if spec.capacity_reservation else [_CAPACITY_TYPES[each] for each in bought]
    )
    requirements = {
        "node.kubernetes.io/instance-type": list(spec.machines),
        f"{_KARPENTER}/capacity-type": capacity_types,
    }
    if spec.zones:
        requirements[ZONE_LABEL] = list(spec.zones)
    return {
        **size,
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": _EMPTY_FOR,
            "budgets": [{"nodes": str(spec.update.max_unavailable)}],
        },
        "template": {
            "metadata": {"labels": {**spec.labels, **target.node_selector}},
            "spec": {
                "nodeClassRef": {"group": _EKS, "kind": "NodeClass", "name": node_class},
                "requirements": [
                    {"key": key, "operator": "In", "values": values}
                    for key, values in requirements.items()
                ],
                "taints": [
                    {"key": taint.key, "value": taint.value, "effect": taint.effect}
                    for taint in target.taints
                ],
                "terminationGracePeriod": _DRAIN_LIMIT,
            },
        },
    }


def _limits(spec: EksPool, nodes: int) -> dict[str, str]:
    """Return limits that `nodes` nodes reach.

    Karpenter counts nodes since 1.8, and AWS documents `nodes` for static NodePools only, so the
    resources of the nodes limit them too.
    """
    if spec.hardware is not None:
        return {
            "nodes": str(nodes),
            spec.hardware.resource: str(nodes * spec.shapes[0].accelerator_count),
        }
    return {"nodes": str(nodes), "cpu": str(nodes * min(shape.cpu for shape in spec.shapes))}
