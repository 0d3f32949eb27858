"""What a user writes under `inferplan:nodePools`: where nodes come from, and the plain facts that follow from it.

It looks at one pool at a time and at no cluster: whether a model fits a pool is checked where a stack is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from components.handles import Capacity, NodeTarget, Taint
from components.naming import POOL_LABEL
from components.nodes import accelerators, machines
from components.nodes.accelerators import Accelerator
from components.spec import Bytes, Cpu, DnsLabel, Labels, Spec, bytes_of, millicores_of

CPU_MACHINE = "m7i.2xlarge"
_MOST_NODES = 5000  # the size that Kubernetes itself is tested to (kubernetes.io, Considerations for large clusters, read 2026-11)
_HOST = "kubernetes.io/hostname"
_HUGEPAGE = 2 * 2**20
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"

AcceleratorName = Annotated[
    str,
    AfterValidator(lambda name: accelerators.lookup(name).name),
    Field(description="An accelerator of docs/accelerators.md, such as nvidia-l40s or gaudi-2."),
]
MachineName = Annotated[
    str,
    AfterValidator(lambda name: machines.machine(name).name),
    Field(description="A machine of docs/accelerators.md, such as g6e.4xlarge or hls-gaudi2."),
]
Zone = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
    Field(description="An availability zone, such as us-east-1a."),
]


class NodeTaint(Spec):
    """A taint of the pool's nodes, in the spelling of the Kubernetes API; pods that target the pool tolerate it."""

    key: Annotated[
        str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
    ]
    """The taint's key, such as `nvidia.com/gpu`."""
    value: Annotated[str, StringConstraints(pattern=_LABEL_VALUE)] = ""
    """The taint's value; empty by default."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """What happens to pods that do not tolerate the taint."""


class MachineShape(Spec):
    """What one node offers to pods, as `kubectl get node -o jsonpath={.status.allocatable}` prints it."""

    cpu: Cpu
    """CPU that pods may use."""
    memory: Bytes
    """Memory that pods may use, huge pages not counted."""
    accelerators: Annotated[int, Field(ge=0, le=64)] = 0
    """Accelerator cards of the node."""
    hugepages2_mi: Annotated[Bytes | None, Field(alias="hugepages2Mi")] = None
    """2 MiB huge pages reserved at boot; none by default."""
    ephemeral_storage: Bytes = "50Gi"
    """Disk for container images, logs and emptyDir volumes."""

    @model_validator(mode="after")
    def _hugepages_are_whole_pages(self) -> Self:
        if self.hugepages2_mi is not None and bytes_of(self.hugepages2_mi) % _HUGEPAGE:
            raise ValueError(f"hugepages2Mi {self.hugepages2_mi!r} is no multiple of 2Mi; round it to whole pages")
        return self


def _machine_kind(value: object) -> str:
    return "shape" if isinstance(value, Mapping | MachineShape) else "name"


MachineChoice = Annotated[
    Annotated[MachineName, Tag("name")] | Annotated[MachineShape, Tag("shape")],
    Discriminator(_machine_kind),
]


class _Pool(Spec):
    """What every pool says of its nodes."""

    accelerator: AcceleratorName | None = None
    """The accelerator that each node carries; without it the pool is one of plain CPU nodes."""
    taints: Annotated[list[NodeTaint], Field(max_length=16)] | None = None
    """Taints of the nodes. By default the accelerator's own, such as `nvidia.com/gpu=present:NoSchedule`; `[]` says that there are none."""
    runtime_class: DnsLabel | None = None
    """RuntimeClass of the accelerator's pods. By default `habana` on Gaudi and none on NVIDIA; `null` says that the nodes' own will do."""

    @model_validator(mode="after")
    def _taints_are_distinct(self) -> Self:
        given = [(each.key, each.effect) for each in self.taints or []]
        twice = sorted({f"{key}:{effect}" for key, effect in given if given.count((key, effect)) > 1})
        if twice:
            raise ValueError(f"taints names {', '.join(twice)} more than once; a node holds one value for a key and effect, keep one")
        return self


class ExistingPool(_Pool):
    """Nodes that are already there, adopted by their labels; nothing is created for them."""

    provider: Literal["existing"]
    nodes: Annotated[int, Field(ge=1, le=_MOST_NODES)]
    """How many nodes carry the pool's labels."""
    node_selector: Annotated[Labels, Field(min_length=1)] | None = None
    """Labels that select the pool's nodes; by default `inferplan.dev/pool: <name of the pool>`, which you put on them."""
    machine: MachineChoice | None = None
    """A machine of the table, or what one node offers; by default the accelerator's usual machine."""

    @model_validator(mode="after")
    def _machine_carries_the_accelerator(self) -> Self:
        _check_machine(self.accelerator, self.machine)
        return self

    @model_validator(mode="after")
    def _one_host_name_is_one_node(self) -> Self:
        if self.nodes > 1 and _HOST in (self.node_selector or {}):
            raise ValueError(
                f"nodeSelector names {_HOST}, which selects one node, but nodes is {self.nodes}; select by a label that all carry"
            )
        return self


class SimulatedPool(_Pool):
    """Pretend nodes on the simulated cluster, with the capacity of the real machine."""

    provider: Literal["simulated"]
    nodes: Annotated[int, Field(ge=1, le=_MOST_NODES)]
    """How many pretend nodes there are."""
    machine: MachineName | None = None
    """A machine of the table; by default the accelerator's usual one."""
    zones: Annotated[list[Zone], Field(min_length=1, max_length=16)] | None = None
    """Zones that the nodes are spread over, one after the other; by default all nodes are in one zone."""

    @model_validator(mode="after")
    def _machine_carries_the_accelerator(self) -> Self:
        _check_machine(self.accelerator, self.machine)
        return self

    @model_validator(mode="after")
    def _zones_are_distinct(self) -> Self:
        zones = self.zones or []
        twice = sorted({zone for zone in zones if zones.count(zone) > 1})
        if twice:
            raise ValueError(f"zones names {', '.join(twice)} more than once; write each zone once")
        return self


NodePoolSpec = Annotated[ExistingPool | SimulatedPool, Field(discriminator="provider")]


def accelerator_of(spec: NodePoolSpec) -> Accelerator | None:
    """The table's row for the pool's accelerator, None for a pool of plain CPU nodes."""
    return None if spec.accelerator is None else accelerators.lookup(spec.accelerator)


def machine_of(spec: NodePoolSpec) -> str | MachineShape:
    """The name of the pool's machine in the table, defaults applied, or the shape that the user wrote."""
    if spec.machine is not None:
        return spec.machine
    return CPU_MACHINE if spec.accelerator is None else accelerators.lookup(spec.accelerator).machine


def capacity_of(spec: NodePoolSpec) -> Capacity:
    """What one node of the pool offers to pods: what the user wrote, or what `machines.allocatable` leaves of the named machine."""
    machine = machine_of(spec)
    if isinstance(machine, str):
        return machines.allocatable(machines.machine(machine))
    return Capacity(
        cpu_millicores=millicores_of(machine.cpu),
        memory_bytes=bytes_of(machine.memory),
        accelerators=machine.accelerators,
        hugepages_2mi_bytes=bytes_of(machine.hugepages2_mi or "0"),
        ephemeral_storage_bytes=bytes_of(machine.ephemeral_storage),
    )


def max_nodes(spec: NodePoolSpec) -> int:
    """The most nodes that the pool may have."""
    return spec.nodes


def node_selector_of(name: str, spec: NodePoolSpec) -> dict[str, str]:
    """Labels that select the nodes of pool `name`."""
    if isinstance(spec, ExistingPool) and spec.node_selector is not None:
        return dict(spec.node_selector)
    return {POOL_LABEL: name}


def taints_of(spec: NodePoolSpec) -> tuple[Taint, ...]:
    """Taints of the pool's nodes: what the user wrote, else the accelerator's own."""
    if spec.taints is not None:
        return tuple(Taint(key=each.key, value=each.value, effect=each.effect) for each in spec.taints)
    accelerator = accelerator_of(spec)
    return () if accelerator is None else (accelerator.taint,)


def target_of(name: str, spec: NodePoolSpec) -> NodeTarget:
    """The handle that pool `name` lends to those who place pods on it."""
    accelerator = accelerator_of(spec)
    default = None if accelerator is None else accelerator.runtime_class
    return NodeTarget(
        pool=name,
        accelerator=accelerator,
        node_selector=node_selector_of(name, spec),
        taints=taints_of(spec),
        capacity=capacity_of(spec),
        nodes=max_nodes(spec),
        # null in YAML and no key at all differ: the first one turns the default off.
        runtime_class=spec.runtime_class if "runtime_class" in spec.model_fields_set else default,
    )


def _check_machine(accelerator: str | None, machine: str | MachineShape | None) -> None:
    if isinstance(machine, MachineShape):
        if bool(machine.accelerators) != (accelerator is not None):
            fix = "write how many cards a node has" if accelerator else "write accelerator too, or leave machine.accelerators out"
            raise ValueError(f"machine.accelerators is {machine.accelerators} but accelerator is {accelerator or 'not set'}; {fix}")
        return
    carried = None if machine is None else machines.machine(machine).accelerator
    if machine is None or carried == accelerator:
        return
    allowed = ", ".join(each.name for each in machines.machines_of(accelerator))
    raise ValueError(f"machine {machine!r} carries {carried or 'no accelerator'}, the pool {accelerator or 'none'}; use one of {allowed}")
