"""Pretend nodes: the Node objects that kwok plays, shaped like the machines that a pool says it has.

Everything is pure: objects in, objects out. Whether they reach a cluster, and that the cluster is a simulated one, is
for others to see to; conditions and addresses are kwok's business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from components.handles import EFA_RESOURCE, Capacity
from components.naming import MAX_NAME, POOL_LABEL, bounded, content_key
from components.nodes import machines
from components.nodes.accelerators import lookup
from components.nodes.spec import (
    MachineShape,
    NodePoolSpec,
    SimulatedPool,
    accelerator_of,
    capacity_of,
    devices_of,
    machine_of,
    max_nodes,
    mig_of,
    node_selector_of,
    taints_of,
    target_of,
)
from components.platforms.aws.pool_spec import EksPool
from kube.quantity import cpu_quantity, size_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from components.nodes.accelerators import Accelerator, Taint

REGION = "simulated"
ONLY_ZONE = "simulated-a"
_KUBELET_PODS = 110  # the kubelet's own default of maxPods
_DIGITS = 5


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where pretend nodes say they are: one zone after the other. No zones, no labels about them."""

    region: str
    zones: tuple[str, ...]


def pretend_nodes(name: str, spec: NodePoolSpec, *, count: int | None = None, place: Place | None = None) -> list[dict[str, Any]]:
    """The Node objects of pool `name` as plain manifests, whoever provides the pool, so that it can be rehearsed.

    `count` is how many there are, by default the most that the pool may have; `place` where, by default what the pool says.
    """
    labels, selected = _machine_labels(spec), node_selector_of(name, spec)
    nominal, offered = _nominal(spec), capacity_of(spec)
    pods, accelerator = _max_pods(spec), accelerator_of(spec)
    status = {"capacity": _resources(nominal, accelerator, pods), "allocatable": _resources(offered, accelerator, pods)}
    taints = [_taint(each) for each in taints_of(spec)]
    where = _place_of(spec) if place is None else place
    names = [node_name(name, index) for index in range(max_nodes(spec) if count is None else count)]
    own = [{"kubernetes.io/hostname": each, **_location(where, index)} for index, each in enumerate(names)]
    # What the pool selects by comes last: pods must find these nodes, whatever else the table would have called them.
    return [_node(each, labels | located | selected, taints, status) for each, located in zip(names, own, strict=True)]


def cpu_nodes(count: int) -> list[dict[str, Any]]:
    """`count` plain CPU nodes outside any pool, for stacks that name none: something has to run the gateway."""
    if count < 1:
        return []
    spec = SimulatedPool.model_validate({"provider": "simulated", "nodes": count})
    nodes = pretend_nodes("rehearsal-cpu", spec)
    for node in nodes:
        del node["metadata"]["labels"][POOL_LABEL]
    return nodes


def runtime_classes_of(pools: Mapping[str, NodePoolSpec]) -> tuple[str, ...]:
    """The RuntimeClasses that pods of `pools` name, each once, sorted."""
    named = {target_of(name, spec).runtime_class for name, spec in pools.items()}
    return tuple(sorted(each for each in named if each is not None))


def pretend_runtime_classes(names: Iterable[str]) -> list[dict[str, Any]]:
    """The RuntimeClass objects called `names`, as plain manifests; the API server refuses pods that name one it does not have."""
    return [
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name} for name in sorted(set(names))
    ]


def node_name(pool: str, index: int) -> str:
    """The name of node `index` of `pool`, which is a label's value as well and so has 63 characters at most."""
    if len(pool) + 1 + _DIGITS <= MAX_NAME:
        return f"{pool}-{index}"
    return f"{bounded(pool, content_key(pool), MAX_NAME - 1 - _DIGITS)}-{index}"


def _node(name: str, labels: Mapping[str, str], taints: list[dict[str, str]], status: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": dict(sorted(labels.items())),
        },
        "spec": {"taints": [dict(each) for each in taints]} if taints else {},
        "status": {kind: dict(amounts) for kind, amounts in status.items()},
    }


def _machine_labels(spec: NodePoolSpec) -> dict[str, str]:
    machine, accelerator = machine_of(spec), accelerator_of(spec)
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    if isinstance(machine, str):
        labels["node.kubernetes.io/instance-type"] = machine
    if isinstance(spec, EksPool):
        labels |= {**spec.labels, "eks.amazonaws.com/capacityType": spec.capacity_types[0]}
    if accelerator is None:
        return labels
    devices, profile = capacity_of(spec).accelerators, mig_of(spec)
    if profile is None:
        return labels | _discovered(accelerator, devices)
    # Discovery tells of whole cards, and of their slices beside them.
    return labels | _discovered(lookup(accelerator.name), devices // devices_of(spec, 1)) | _divided(profile, devices)


def _divided(profile: str, slices: int) -> dict[str, str]:
    """What GPU feature discovery adds about cards that are all divided into `profile` (strategy mixed)."""
    return {"nvidia.com/mig.strategy": "mixed", f"nvidia.com/mig-{profile}.count": str(slices)}


def _discovered(accelerator: Accelerator, cards: int) -> dict[str, str]:
    """What node and GPU feature discovery would put on a node with `cards` of `accelerator`."""
    labels = dict(accelerator.labels)
    if accelerator.compute is None:
        return labels
    major, minor = accelerator.compute.split(".")
    return labels | {
        "nvidia.com/gpu.product": accelerator.product or "",
        "nvidia.com/gpu.count": str(cards),
        "nvidia.com/gpu.memory": str(accelerator.memory_bytes // 2**20),
        "nvidia.com/gpu.family": accelerator.family or "",
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/mig.capable": "true" if accelerator.mig else "false",
    }


def _place_of(spec: NodePoolSpec) -> Place:
    # Racks mostly carry no zone labels: inventing them for adopted nodes would promise a spread that the real ones cannot give.
    return Place(region=REGION, zones=tuple(spec.zones or [ONLY_ZONE]) if isinstance(spec, SimulatedPool) else ())


def _location(where: Place, index: int) -> dict[str, str]:
    if not where.zones:
        return {}
    return {"topology.kubernetes.io/region": where.region, "topology.kubernetes.io/zone": where.zones[index % len(where.zones)]}


def _nominal(spec: NodePoolSpec) -> Capacity:
    machine = machine_of(spec)
    if isinstance(spec, EksPool):
        # Several machines may serve the pool: pretend nodes are the least of them, so that what fits here fits each.
        whole = machines.nominal(machines.machine(spec.machines[0]))
        offered = spec.capacity
        return replace(
            whole,
            memory_bytes=max(whole.memory_bytes, offered.memory_bytes + offered.hugepages_2mi_bytes),
            hugepages_2mi_bytes=offered.hugepages_2mi_bytes,
            efa=offered.efa,
            ephemeral_storage_bytes=max(whole.ephemeral_storage_bytes, offered.ephemeral_storage_bytes),
        )
    if isinstance(machine, str):
        whole = machines.nominal(machines.machine(machine))
        return replace(whole, accelerators=devices_of(spec, whole.accelerators))
    offered = capacity_of(spec)
    return Capacity(
        cpu_millicores=offered.cpu_millicores,
        memory_bytes=offered.memory_bytes + offered.hugepages_2mi_bytes,
        accelerators=offered.accelerators,
        hugepages_2mi_bytes=offered.hugepages_2mi_bytes,
        ephemeral_storage_bytes=offered.ephemeral_storage_bytes,
    )


def _max_pods(spec: NodePoolSpec) -> int:
    machine = machine_of(spec)
    return _KUBELET_PODS if isinstance(machine, MachineShape) else machines.machine(machine).max_pods


def _resources(capacity: Capacity, accelerator: Accelerator | None, pods: int) -> dict[str, str]:
    resources = {
        "cpu": cpu_quantity(capacity.cpu_millicores),
        "ephemeral-storage": size_quantity(capacity.ephemeral_storage_bytes),
        "memory": size_quantity(capacity.memory_bytes),
        "pods": str(pods),
    }
    if capacity.hugepages_2mi_bytes:
        resources["hugepages-2Mi"] = size_quantity(capacity.hugepages_2mi_bytes)
    if capacity.efa:
        resources[EFA_RESOURCE] = str(capacity.efa)
    if accelerator is not None:
        resources[accelerator.resource] = str(capacity.accelerators)
    return dict(sorted(resources.items()))


def _taint(taint: Taint) -> dict[str, str]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}
