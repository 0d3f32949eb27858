"""The settings of a pool of EC2 instances, and what follows from them: node type, labels, zones,
capacity. `pool_spec.py` checks them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.handles import ClusterTraits
from inferplan.components.nodes.pool import InstanceTypeName, NodeLocation, Pool, Zone
from inferplan.components.platforms.aws.pool_parts import (
    CapacityReservation,
    NodeUpdate,
    PoolSize,
    RootVolume,
    SecurityGroupId,
    SubnetId,
    supported_ami,
)
from inferplan.components.spec import Bytes, Labels
from inferplan.documents.errors import SpecError
from inferplan.hardware import machines
from inferplan.hardware.machines import Capacity, Machine
from inferplan.kube.quantity import bytes_of

NodeKind = Literal["autoMode", "nodeGroup"]
GPU_LABEL = "k8s.amazonaws.com/accelerator"
# "EKS Auto Mode supported instance reference", read 2026-11: the limit is applied after the usual
# number of an instance type.
MOST_PODS = 110


class EksPoolFields(Pool):
    """The settings of a pool of EC2 instances, and what follows from them."""

    nodes: NodeKind | None = None
    """The operator of the nodes: `autoMode` (EKS Auto Mode starts and ends them with the pods) or
    `nodeGroup` (managed node groups of this stack). Default: autoMode if the cluster has it and the
    pool's settings allow it, else nodeGroup.
    """
    provider: Literal["eks"]
    size: PoolSize
    instance_types: Annotated[list[InstanceTypeName], Field(min_length=1, max_length=20)] | None = (
        None
    )
    """EC2 instance types of the pool, with the same number of accelerators. Default: the
    accelerator's usual type.
    """
    capacity_types: Annotated[
        list[Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]], Field(min_length=1, max_length=2)
    ] = ["ON_DEMAND"]
    """The ways to buy instances, in order of preference: an autoscaler grows the first group that
    has capacity. With two values, the pool has two node groups, and the last one keeps `size.min`.
    """
    usd_per_hour: Annotated[float | None, Field(gt=0, le=10_000)] = None
    """The price in US dollars that you pay for an hour of a node, for example of a capacity block or
    with a savings plan. Reports and budgets use it. Default: the list price.
    """
    spot_usd_per_hour: Annotated[float | None, Field(gt=0, le=10_000)] = None
    """The price in US dollars that you expect for an hour of a spot node. Default: between a tenth
    of the list price and all of it.
    """
    capacity_reservation: CapacityReservation | None = None
    """The only instances that nodes use: a capacity block with capacityTypes: [CAPACITY_BLOCK], an
    on-demand capacity reservation with [ON_DEMAND]. Without it, nodes still use open on-demand
    reservations of their type and zone.
    """
    ami_type: Annotated[str, AfterValidator(supported_ami)] | None = None
    """The AMI type as EKS spells it. Default: AL2023_x86_64_NVIDIA with NVIDIA accelerators,
    without AL2023_x86_64_STANDARD or, on Graviton, AL2023_ARM_64_STANDARD.
    """
    ami_id: (
        Annotated[str, StringConstraints(pattern=r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$")] | None
    ) = None
    """The image for amiType CUSTOM. It must carry nodeadm, as the AL2023 images for EKS do."""
    zones: Annotated[list[Zone], Field(min_length=1, max_length=6)] | None = None
    """Zones of the nodes. Default: all zones of the cluster."""
    subnets: Annotated[list[SubnetId], Field(min_length=1, max_length=6)] | None = None
    """Existing private subnets of the nodes, in the zones of the pool. Default: cluster.subnets,
    else the private subnets of the existing cluster.
    """
    security_groups: Annotated[list[SecurityGroupId], Field(min_length=1, max_length=3)] | None = (
        None
    )
    """Security groups of the nodes, besides the cluster's own: on an existing cluster those that
    let a node reach CoreDNS on other nodes.
    """
    efa: bool = False
    """Attaches every EFA interface that the instance type takes; replicas that span nodes request
    them. Needs a single zone.
    """
    placement_group: bool = False
    """Puts the nodes close together (strategy cluster), which needs a single zone."""
    root_volume: RootVolume = RootVolume()
    local_cache: bool = False
    """Joins the node's NVMe disks (RAID0) and keeps images, logs and emptyDir volumes on them."""
    hugepages2_mi: Annotated[Bytes | None, Field(alias="hugepages2Mi")] = None
    """2 MiB huge pages that a node reserves before its kubelet starts. Default: what Gaudi and EFA
    need.
    """
    labels: Labels = {}
    """Further labels on the nodes."""
    update: NodeUpdate = NodeUpdate()
    release_version: (
        Annotated[str, StringConstraints(pattern=r"^1\.[0-9]{2}\.[0-9]+-[0-9a-f]{8}$")] | None
    ) = None
    """The release of the EKS image, for example 1.35.2-20261112; `inferplan versions` proposes one.
    Default: the newest when nodes are updated.
    """
    auto_repair: bool | None = None
    """Lets EKS reboot or replace nodes whose GPU, kernel or network fails. Default: true in a
    created cluster, false in an existing one.
    """
    accept_scarcity: bool = False
    """Accepts spot capacity although one zone or one instance type is likely to run out, and
    instance types that our list does not have for the region.
    """

    size_field: ClassVar[str] = "size"
    # `desired` counts on the first day only, and an update shows in the node group.
    stated: ClassVar[Mapping[str, Any]] = {
        **Pool.stated,
        **dict.fromkeys(
            (
                "size",
                "instance_types",
                "labels",
                "update",
                "accept_scarcity",
                "usd_per_hour",
                "spot_usd_per_hour",
                "subnets",
                "security_groups",
            ),
            True,
        ),
    }

    @property
    def is_auto_mode(self) -> bool:
        """True if EKS Auto Mode runs the nodes. Known once the stack has resolved the default."""
        return self.nodes == "autoMode"

    @property
    def max_pods(self) -> int:
        most = super().max_pods
        return min(most, MOST_PODS) if self.is_auto_mode else most

    @property
    def machines(self) -> tuple[str, ...]:
        """The names of the machines, defaults applied."""
        return (self.usual_machine,) if self.instance_types is None else tuple(self.instance_types)

    @property
    def shapes(self) -> tuple[Machine, ...]:
        return tuple(machines.machine(name) for name in self.machines)

    @property
    def ami(self) -> str:
        """The AMI type, defaults applied."""
        plain = (
            "AL2023_ARM_64_STANDARD" if self.architecture == "arm64" else "AL2023_x86_64_STANDARD"
        )
        images = (plain,) if self.vendor is None else (*self.vendor.ami_types, "CUSTOM")
        return self.ami_type or images[0]

    @property
    def architecture(self) -> str:
        """The architecture of the processors: x86_64, or arm64 on Graviton."""
        return self.shapes[0].architecture

    @property
    def is_block(self) -> bool:
        return "CAPACITY_BLOCK" in self.capacity_types

    @property
    def is_bottlerocket(self) -> bool:
        return self.ami.startswith("BOTTLEROCKET")

    @property
    def only_zones(self) -> list[str] | None:
        """The zones of the nodes; None if they are all zones of the cluster."""
        return self.zones if self.capacity_reservation is None else [self.capacity_reservation.zone]

    @property
    def min_nodes(self) -> int:
        return self.size.min

    @property
    def max_nodes(self) -> int:
        return self.size.max

    @property
    def initial_nodes(self) -> int:
        return self.size.initial

    @property
    def node_type(self) -> str:
        return self.machines[0]

    @property
    def device_plugins(self) -> tuple[str, ...]:
        """The plugin of the accelerator's vendor, except on Bottlerocket and in Auto Mode, which
        have one; and that of EFA.
        """
        vendor = (
            ()
            if self.hardware is None or self.is_bottlerocket or self.is_auto_mode
            else (self.hardware.vendor.name,)
        )
        return (*vendor, *(("efa",) if self.efa else ()))

    @property
    def directory_error(self) -> str | None:
        """Bottlerocket, which Auto Mode uses too, has a read-only root."""
        if self.is_auto_mode:
            return "runs in EKS Auto Mode, whose nodes have a read-only root. Set nodes: nodeGroup"
        return (
            "runs Bottlerocket, which cannot create a directory at boot. Use an AL2023 image"
            if self.is_bottlerocket
            else None
        )

    def cluster_error(self, cluster: ClusterTraits) -> SpecError | None:
        if cluster.provider == self.provider:
            return None
        problem = (
            f"Pools of provider eks require a cluster of provider eks, not {cluster.provider}."
        )
        return SpecError(("provider",), f"{problem} Use cluster: {{provider: eks, ...}}.")

    @property
    def extra_labels(self) -> dict[str, str]:
        """The labels of the nodes except the pool's own, with the one that EKS sets."""
        return {
            **self.node_labels,
            **(
                {"eks.amazonaws.com/compute-type": "auto"}
                if self.is_auto_mode
                else {"eks.amazonaws.com/capacityType": self.capacity_types[0]}
            ),
        }

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels that the user wrote, and on NVIDIA's nodes of a node group the one by which
        the cluster autoscaler waits for their GPUs.

        Without it, the autoscaler adds a second node while the first one has no device plugin yet.
        It counts only `nvidia.com/gpu` as a GPU, so a Gaudi node with the label would never be
        ready (kubernetes/autoscaler, gpu_processor.go, read 2026-11).
        """
        hardware = None if self.is_auto_mode else self.hardware
        return {
            **self.labels,
            **(
                {GPU_LABEL: hardware.name}
                if hardware is not None and hardware.vendor.autoscaler_label
                else {}
            ),
        }

    def location(self, cluster: NodeLocation) -> NodeLocation:
        """Return the zones of the pool, else those of the cluster. Only AWS knows those of an
        existing cluster, which has at least two.
        """
        zones = tuple(self.only_zones or cluster.zones) or (
            f"{cluster.region}a",
            f"{cluster.region}b",
        )
        return NodeLocation(region=cluster.region, zones=zones)

    def sized(self, nodes: int) -> str:
        """Return the size with at least `nodes` nodes from the first day; a capacity block has no
        minimum.
        """
        return self.size.starting_with(nodes, keeps=self.capacity_reservation is None)

    def enlarged(self, nodes: int) -> str:
        return self.size.growing_to(nodes)

    @property
    def hugepages_bytes(self) -> int:
        """2 MiB huge pages of a node, in bytes: as written, else the minimum of the instance types."""
        if self.hugepages2_mi is not None:
            return bytes_of(self.hugepages2_mi)
        return min(
            max(shape.hugepages_2mi_bytes, shape.efa_pages_bytes if self.efa else 0)
            for shape in self.shapes
        )

    @property
    def efa_cards(self) -> list[int]:
        """The network cards of a node that get an EFA interface: those of every instance type of
        the pool, none without `efa`.
        """
        return (
            sorted(set.intersection(*(set(shape.efa_cards) for shape in self.shapes)))
            if self.efa
            else []
        )

    @property
    def capacity(self) -> Capacity:
        """The resources that every node of the pool offers to pods: of several instance types, the
        minimum of each.
        """
        offers = [machines.allocatable(shape) for shape in self.shapes]
        pages = self.hugepages_bytes
        return Capacity(
            cpu_millicores=min(each.cpu_millicores for each in offers),
            memory_bytes=min(each.memory_bytes + each.hugepages_2mi_bytes for each in offers)
            - pages,
            accelerators=offers[0].accelerators,
            hugepages_2mi_bytes=pages,
            efa=len(self.efa_cards),
            ephemeral_storage_bytes=(
                min(each.ephemeral_storage_bytes for each in offers)
                if self.local_cache
                else self.root_volume.bytes_for_pods
            ),
        )

    @property
    def nominal_capacity(self) -> Capacity:
        """The resources of the first instance type, at least those that pods get: the smallest of
        several types.
        """
        whole, offered = machines.nominal(self.shapes[0]), self.capacity
        return replace(
            whole,
            memory_bytes=max(
                whole.memory_bytes, offered.memory_bytes + offered.hugepages_2mi_bytes
            ),
            hugepages_2mi_bytes=offered.hugepages_2mi_bytes,
            efa=offered.efa,
            ephemeral_storage_bytes=max(
                whole.ephemeral_storage_bytes, offered.ephemeral_storage_bytes
            ),
        )

    @property
    def update_strategy(self) -> str:
        return self.update.strategy or (
            "DEFAULT" if self.capacity_reservation is None else "MINIMAL"
        )
