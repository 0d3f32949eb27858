"""The settings of `nodePools`: existing nodes, fake nodes of the simulated cluster, and those that clouds create."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from components.handles import Capacity, ClusterFacts
from components.nodes import accelerators, machines
from components.nodes.accelerators import Accelerator
from components.nodes.pool import MOST_NODES, MachineChoice, MachineName, MachineShape, MigProfile, NodeLocation, Pool, Zone
from components.platforms.spec import CloudPool
from components.spec import Labels, SpecError, duplicates
from kube.names import HOSTNAME_LABEL

_ONLY_ZONE = "simulated-a"


class FixedPool(Pool):
    """A pool with a fixed number of equal nodes."""

    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)]
    """Number of nodes."""
    machine: MachineChoice | None = None
    """A machine of components/nodes/machines.csv, or the resources of one node. Default: the accelerator's usual machine."""
    mig: MigProfile | None = None
    """The MIG profile of every accelerator, with the device plugin's strategy `mixed`; models then get slices."""

    @model_validator(mode="after")
    def _machine_carries_the_accelerator(self) -> Self:
        machine = self.machine
        if isinstance(machine, MachineShape):
            if bool(machine.accelerators) != (self.accelerator is not None):
                remedy = (
                    "write how many accelerators a node has"
                    if self.accelerator
                    else "write accelerator too, or leave machine.accelerators out"
                )
                raise ValueError(
                    f"machine.accelerators is {machine.accelerators} but accelerator is {self.accelerator or 'not set'}; {remedy}"
                )
            return self
        carried = None if machine is None else machines.machine(machine).accelerator
        if machine is not None and carried != self.accelerator:
            allowed = ", ".join(each.name for each in machines.machines_of(self.accelerator))
            raise ValueError(
                f"machine {machine!r} has {carried or 'no accelerator'}, and the pool has {self.accelerator or 'none'}. Use one of: {allowed}"
            )
        return self

    @model_validator(mode="after")
    def _accelerator_has_the_slices(self) -> Self:
        if self.mig is None:
            return self
        if self.accelerator is None:
            raise ValueError(f"mig is {self.mig} and the pool has no accelerator to divide; write accelerator too, or remove mig")
        error = accelerators.lookup(self.accelerator).mig_error(self.mig)
        if error is not None:
            raise ValueError(error)
        return self

    @property
    def min_nodes(self) -> int:
        return self.nodes

    @property
    def max_nodes(self) -> int:
        return self.nodes

    @property
    def mig_profile(self) -> str | None:
        return self.mig

    @property
    def hardware(self) -> Accelerator | None:
        whole = super().hardware
        return whole if whole is None or self.mig is None else whole.sliced(self.mig)

    @property
    def node_type(self) -> str | MachineShape:
        return self.usual_machine if self.machine is None else self.machine

    @property
    def capacity(self) -> Capacity:
        node = self.node_type
        return self._divided(node.allocatable if isinstance(node, MachineShape) else machines.allocatable(machines.machine(node)))

    @property
    def nominal_capacity(self) -> Capacity:
        """The resources of the machine; of a shape, those for pods, with huge pages as part of the memory."""
        node = self.node_type
        if isinstance(node, str):
            return self._divided(machines.nominal(machines.machine(node)))
        return replace(self.capacity, memory_bytes=self.capacity.memory_bytes + self.capacity.hugepages_2mi_bytes)

    def _divided(self, capacity: Capacity) -> Capacity:
        if self.mig is None or self.accelerator is None:
            return capacity
        return replace(capacity, accelerators=capacity.accelerators * accelerators.lookup(self.accelerator).slices(self.mig))


class ExistingPool(FixedPool):
    """Existing nodes, selected by their labels; nothing is created for them."""

    provider: Literal["existing"]
    node_selector: Annotated[Labels, Field(min_length=1)] | None = None
    """Labels that select the pool's nodes. Default: `inferplan.dev/pool: <name of the pool>`, a label that you add to them."""

    creates_nodes: ClassVar[bool] = False

    @model_validator(mode="after")
    def _one_host_name_is_one_node(self) -> Self:
        if self.nodes > 1 and HOSTNAME_LABEL in (self.node_selector or {}):
            raise ValueError(
                f"nodeSelector names {HOSTNAME_LABEL}, which selects one node, but nodes is {self.nodes}; select by a label that all carry"
            )
        return self

    def selector(self, name: str) -> dict[str, str]:
        return dict(self.node_selector) if self.node_selector is not None else super().selector(name)


class SimulatedPool(FixedPool):
    """Fake nodes of the simulated cluster, with the capacity of the real machine."""

    provider: Literal["simulated"]
    machine: MachineName | None = None
    """A machine of components/nodes/machines.csv. Default: the accelerator's usual machine."""
    zones: Annotated[list[Zone], Field(min_length=1, max_length=16)] | None = None
    """Zones of the nodes, which are spread over them in turn. Default: all nodes are in one zone."""

    is_fake: ClassVar[bool] = True

    @model_validator(mode="after")
    def _zones_are_distinct(self) -> Self:
        if repeated := duplicates(self.zones or []):
            raise ValueError(f"zones names {', '.join(repeated)} more than once; write each zone once")
        return self

    def cluster_error(self, cluster: ClusterFacts) -> SpecError | None:
        return None if cluster.fake_node_error is None else SpecError(("provider",), cluster.fake_node_error)

    def location(self, cluster: NodeLocation) -> NodeLocation:
        return NodeLocation(region=cluster.region, zones=tuple(self.zones or [_ONLY_ZONE]))


NodePoolSpec = Annotated[ExistingPool | CloudPool | SimulatedPool, Field(discriminator="provider")]
