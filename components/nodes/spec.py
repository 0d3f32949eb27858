"""What a user writes under `inferplan:nodePools`: where nodes come from, and the plain facts that follow from it.

It looks at one pool at a time and at no cluster: whether a model fits a pool is checked where a stack is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from components.handles import Capacity, NodeTarget
from components.naming import POOL_LABEL
from components.nodes import accelerators, machines, mig
from components.nodes.accelerators import Accelerator, Taint
from components.nodes.fields import CPU_MACHINE, MOST_NODES, MachineChoice, MachineName, MachineShape, Pool, Zone
from components.nodes.mig import MigProfile
from components.platforms.aws.pool_spec import EksPool
from components.spec import Labels
from kube.quantity import bytes_of, millicores_of

_HOST = "kubernetes.io/hostname"


class ExistingPool(Pool):
    """Nodes that are already there, adopted by their labels; nothing is created for them."""

    provider: Literal["existing"]
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)]
    """How many nodes carry the pool's labels."""
    node_selector: Annotated[Labels, Field(min_length=1)] | None = None
    """Labels that select the pool's nodes; by default `inferplan.dev/pool: <name of the pool>`, which you put on them."""
    machine: MachineChoice | None = None
    """A machine of the table, or what one node offers; by default the accelerator's usual machine."""
    mig: MigProfile | None = None
    """The MIG profile that every card is divided into already, with the device plugin's strategy `mixed`; models then get slices."""

    @model_validator(mode="after")
    def _machine_carries_the_accelerator(self) -> Self:
        _check_machine(self.accelerator, self.machine)
        return self

    @model_validator(mode="after")
    def _cards_can_be_divided(self) -> Self:
        _check_mig(self.accelerator, self.mig)
        return self

    @model_validator(mode="after")
    def _one_host_name_is_one_node(self) -> Self:
        if self.nodes > 1 and _HOST in (self.node_selector or {}):
            raise ValueError(
                f"nodeSelector names {_HOST}, which selects one node, but nodes is {self.nodes}; select by a label that all carry"
            )
        return self


class SimulatedPool(Pool):
    """Pretend nodes on the simulated cluster, with the capacity of the real machine."""

    provider: Literal["simulated"]
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)]
    """How many pretend nodes there are."""
    machine: MachineName | None = None
    """A machine of the table; by default the accelerator's usual one."""
    zones: Annotated[list[Zone], Field(min_length=1, max_length=16)] | None = None
    """Zones that the nodes are spread over, one after the other; by default all nodes are in one zone."""
    mig: MigProfile | None = None
    """The MIG profile that every card is divided into; models then get slices."""

    @model_validator(mode="after")
    def _machine_carries_the_accelerator(self) -> Self:
        _check_machine(self.accelerator, self.machine)
        return self

    @model_validator(mode="after")
    def _cards_can_be_divided(self) -> Self:
        _check_mig(self.accelerator, self.mig)
        return self

    @model_validator(mode="after")
    def _zones_are_distinct(self) -> Self:
        zones = self.zones or []
        twice = sorted({zone for zone in zones if zones.count(zone) > 1})
        if twice:
            raise ValueError(f"zones names {', '.join(twice)} more than once; write each zone once")
        return self


NodePoolSpec = Annotated[ExistingPool | EksPool | SimulatedPool, Field(discriminator="provider")]


def accelerator_of(spec: NodePoolSpec) -> Accelerator | None:
    """The table's row for the pool's accelerator, or a slice of it where cards are divided; None for a pool of plain CPU nodes."""
    if spec.accelerator is None:
        return None
    card, profile = accelerators.lookup(spec.accelerator), mig_of(spec)
    return card if profile is None else mig.sliced(card, profile)


def mig_of(spec: NodePoolSpec) -> str | None:
    """The MIG profile that the pool's cards are divided into, None where they are whole."""
    return None if isinstance(spec, EksPool) else spec.mig


def devices_of(spec: NodePoolSpec, cards: int) -> int:
    """What Kubernetes counts on a node with `cards`: the cards, or their slices."""
    profile = mig_of(spec)
    if profile is None or spec.accelerator is None:
        return cards
    return cards * mig.slices_of(accelerators.lookup(spec.accelerator), profile)


def machine_of(spec: NodePoolSpec) -> str | MachineShape:
    """The name of the pool's (first) machine in the table, defaults applied, or the shape that the user wrote."""
    if isinstance(spec, EksPool):
        return spec.machines[0]
    if spec.machine is not None:
        return spec.machine
    return CPU_MACHINE if spec.accelerator is None else accelerators.lookup(spec.accelerator).machine


def capacity_of(spec: NodePoolSpec) -> Capacity:
    """What one node of the pool offers to pods: what the user wrote, or what `machines.allocatable` leaves of the named machine."""
    if isinstance(spec, EksPool):
        return spec.capacity
    machine = machine_of(spec)
    if isinstance(machine, str):
        whole = machines.allocatable(machines.machine(machine))
        return replace(whole, accelerators=devices_of(spec, whole.accelerators))
    return Capacity(
        cpu_millicores=millicores_of(machine.cpu),
        memory_bytes=bytes_of(machine.memory),
        accelerators=devices_of(spec, machine.accelerators),
        hugepages_2mi_bytes=bytes_of(machine.hugepages2_mi or "0"),
        ephemeral_storage_bytes=bytes_of(machine.ephemeral_storage),
    )


def max_nodes(spec: NodePoolSpec) -> int:
    """The most nodes that the pool may have."""
    return spec.size.max if isinstance(spec, EksPool) else spec.nodes


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


def _check_mig(accelerator: str | None, profile: str | None) -> None:
    card = None if accelerator is None else accelerators.lookup(accelerator)
    fault = None if profile is None else mig.fault_of(card, profile)
    if fault is not None:
        raise ValueError(fault)


def _check_machine(accelerator: str | None, machine: str | MachineShape | None) -> None:
    if isinstance(machine, MachineShape):
        if bool(machine.accelerators) != (accelerator is not None):
            fix = "write how many accelerators a node has" if accelerator else "write accelerator too, or leave machine.accelerators out"
            raise ValueError(f"machine.accelerators is {machine.accelerators} but accelerator is {accelerator or 'not set'}; {fix}")
        return
    carried = None if machine is None else machines.machine(machine).accelerator
    if machine is None or carried == accelerator:
        return
    allowed = ", ".join(each.name for each in machines.machines_of(accelerator))
    raise ValueError(
        f"machine {machine!r} has {carried or 'no accelerator'}, and the pool has {accelerator or 'none'}. Use one of: {allowed}"
    )
