"""The settings of `nodePools`: existing nodes, fake nodes of the simulated cluster, and those that
clouds create.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from inferplan.components.handles import ClusterTraits
from inferplan.components.nodes.pool import (
    MOST_NODES,
    InstanceTypeName,
    InstanceTypeOrShape,
    MachineShape,
    MigProfile,
    NodeLocation,
    Pool,
    Zone,
)
from inferplan.components.nodes.sharing import SharingSpec
from inferplan.components.platforms.spec import CloudPool
from inferplan.components.spec import FieldError, Labels, duplicates, renamed, rule
from inferplan.documents.errors import SpecError
from inferplan.hardware import accelerators, machines
from inferplan.hardware.accelerators import Accelerator
from inferplan.hardware.machines import Capacity
from inferplan.kube.names import HOSTNAME_LABEL

_ONLY_ZONE = "simulated-a"


class FixedPool(Pool):
    """A pool with a fixed number of equal nodes."""

    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)]
    """Number of nodes."""
    instance_type: Annotated[InstanceTypeOrShape | None, renamed("instanceType", "machine")] = None
    """An instance type of the reference of accelerators, or the resources of one node. Default: the
    accelerator's usual instance type.
    """
    mig: MigProfile | None = None
    """The MIG profile of every accelerator, with the device plugin's strategy `mixed`; models then
    get slices.
    """

    sharing: SharingSpec | None = None
    """Shares of accelerators, as the device plugin of the nodes offers them, or as a DRA driver
    makes them for claims. Default: whole accelerators.
    """
    devices: Literal["devicePlugin", "dra"] = "devicePlugin"
    """The mechanism by which pods get accelerators: `devicePlugin`, which offers a resource such as
    nvidia.com/gpu, or `dra`, a DRA driver that allocates ResourceClaims.
    """

    stated: ClassVar[Mapping[str, Any]] = {
        **Pool.stated,
        "nodes": True,
        "instance_type": True,
        "node_selector": True,
    }

    @rule
    def _check_accelerator(self) -> Iterator[FieldError | str]:
        error = self._instance_type_error() or self._mig_error()
        if error is not None:
            yield error
        elif (error := self._sharing_error()) is not None:
            yield FieldError(error, "sharing")
        elif (error := self._claim_error()) is not None:
            yield FieldError(error, "devices")

    def _instance_type_error(self) -> str | None:
        if isinstance(self.instance_type, MachineShape):
            count = self.instance_type.accelerators
            if bool(count) == (self.accelerator is not None):
                return None
            remedy = "Write accelerator too, or leave instanceType.accelerators out"
            if self.accelerator:
                remedy = "Write how many accelerators a node has"
            return (
                f"instanceType.accelerators is {count} but accelerator is"
                f" {self.accelerator or 'not set'}. {remedy}"
            )
        carried = (
            None if self.instance_type is None else machines.machine(self.instance_type).accelerator
        )
        if self.instance_type is None or carried == self.accelerator:
            return None
        allowed = ", ".join(each.name for each in machines.machines_of(self.accelerator))
        problem = (
            f"instanceType {self.instance_type!r} has {carried or 'no accelerator'}, and the pool"
            f" has {self.accelerator or 'none'}"
        )
        return f"{problem}. Use one of: {allowed}."

    def _mig_error(self) -> str | None:
        if self.mig is None:
            return None
        if self.accelerator is None:
            return (
                f"mig is {self.mig} and the pool has no accelerator to divide. Write accelerator"
                " too, or remove mig."
            )
        return accelerators.lookup(self.accelerator).mig_error(self.mig)

    def _sharing_error(self) -> str | None:
        if self.sharing is None:
            return None
        if (
            self.accelerator is None
            or not accelerators.lookup(self.accelerator).vendor.shares_devices
        ):
            return (
                "sharing divides accelerators of NVIDIA only, and the pool has"
                f" {self.accelerator or 'no accelerator'}. Remove sharing."
            )
        if self.mig is not None:
            return f"mig {self.mig} divides the accelerators already. Remove mig or sharing."
        return None

    def _claim_error(self) -> str | None:
        if self.devices != "dra":
            return None
        remedy = "Write devices: devicePlugin."
        if self.accelerator is None:
            return f"devices is dra, but the pool has no accelerator to claim. {remedy}"
        name = accelerators.lookup(self.accelerator).vendor.device_class
        if name is None:
            return (
                "devices is dra, but inferplan supports dra only for NVIDIA and AMD, and the pool"
                f" has {self.accelerator}. {remedy}"
            )
        if self.sharing is not None and self.sharing.way.rename_by_default:
            return (
                "devices is dra, but renameByDefault names a resource of the device plugin. Remove"
                " renameByDefault."
            )
        return None

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
    def shares_devices(self) -> bool:
        return self.sharing is not None

    @property
    def shares_between_consumers(self) -> bool:
        return self.sharing is not None and self.sharing.between_consumers

    @property
    def undivided_sharers(self) -> int:
        sliced = None if self.sharing is None else self.sharing.time_slicing
        return 1 if sliced is None else sliced.replicas

    @property
    def sharing_labels(self) -> dict[str, str]:
        return {} if self.sharing is None else self.sharing.labels

    @property
    def hardware(self) -> Accelerator | None:
        part = super().hardware
        if part is None:
            return None
        if self.sharing is not None:
            way = self.sharing.way
            part = part.shared(
                way.replicas,
                renamed=way.rename_by_default,
                divides_memory=self.sharing.mps is not None,
            )
        if self.mig is not None:
            part = part.sliced(self.mig)
        return part.claimed() if self.devices == "dra" else part

    @property
    def node_type(self) -> str | MachineShape:
        return self.usual_machine if self.instance_type is None else self.instance_type

    @property
    def capacity(self) -> Capacity:
        node = self.node_type
        return self._divided(
            node.allocatable
            if isinstance(node, MachineShape)
            else machines.allocatable(machines.machine(node))
        )

    @property
    def nominal_capacity(self) -> Capacity:
        """The resources of the instance type; of a shape, those for pods, with huge pages as part
        of the memory.
        """
        node = self.node_type
        if isinstance(node, str):
            return self._divided(machines.nominal(machines.machine(node)))
        return replace(
            self.capacity,
            memory_bytes=self.capacity.memory_bytes + self.capacity.hugepages_2mi_bytes,
        )

    def _divided(self, capacity: Capacity) -> Capacity:
        if self.sharing is not None:
            return replace(capacity, accelerators=capacity.accelerators * self.sharing.way.replicas)
        if self.mig is None or self.accelerator is None:
            return capacity
        return replace(
            capacity,
            accelerators=capacity.accelerators
            * accelerators.lookup(self.accelerator).slices(self.mig),
        )


class ExistingPool(FixedPool):
    """Existing nodes, selected by their labels; nothing is created for them."""

    provider: Literal["existing"]
    node_selector: Annotated[Labels, Field(min_length=1)] | None = None
    """Labels that select the pool's nodes. Default: `inferplan.dev/pool: <name of the pool>`, a
    label that you add to them.
    """

    creates_nodes: ClassVar[bool] = False

    @rule
    def _one_host_name_is_one_node(self) -> Iterator[str]:
        if self.nodes > 1 and HOSTNAME_LABEL in (self.node_selector or {}):
            yield (
                f"nodeSelector names {HOSTNAME_LABEL}, which selects one node, but nodes is"
                f" {self.nodes}. Select by a label that all carry."
            )

    def selector(self, name: str) -> dict[str, str]:
        return (
            dict(self.node_selector) if self.node_selector is not None else super().selector(name)
        )


class SimulatedPool(FixedPool):
    """Fake nodes of the simulated cluster, with the capacity of the real nodes."""

    provider: Literal["simulated"]
    instance_type: Annotated[InstanceTypeName | None, renamed("instanceType", "machine")] = None
    """An instance type of the reference of accelerators. Default: the accelerator's usual instance
    type.
    """
    zones: Annotated[list[Zone], Field(min_length=1, max_length=16)] | None = None
    """Zones of the nodes, which are spread over them in turn. Default: all nodes are in one zone.
    """

    is_fake: ClassVar[bool] = True

    @rule
    def _zones_are_distinct(self) -> Iterator[str]:
        if repeated := duplicates(self.zones or []):
            yield f"zones names {', '.join(repeated)} more than once. Write each zone once."

    def cluster_error(self, cluster: ClusterTraits) -> SpecError | None:
        return (
            None
            if cluster.fake_node_error is None
            else SpecError(("provider",), cluster.fake_node_error)
        )

    def location(self, cluster: NodeLocation) -> NodeLocation:
        return NodeLocation(region=cluster.region, zones=tuple(self.zones or [_ONLY_ZONE]))


NodePoolSpec = Annotated[ExistingPool | CloudPool | SimulatedPool, Field(discriminator="provider")]
