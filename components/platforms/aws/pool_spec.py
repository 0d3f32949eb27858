"""A pool of EC2 instances as EKS managed node groups. Checks that need the cluster or the models are in stackfile/checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from components.handles import Capacity
from components.nodes import accelerators, machines
from components.nodes.fields import CPU_MACHINE, MOST_NODES, MachineName, Pool, Zone
from components.platforms.aws import aws_api
from components.spec import Bytes, Labels, Spec
from kube.quantity import bytes_of

_GI = 2**30
SMALLEST_ROOT = 100 * _GI  # where its size is left to us: system, kubelet, one image
# Prefixes that EKS, Kubernetes or this project set themselves.
_OWNED_LABELS = ("eks.amazonaws.com/", "kubernetes.io/", "k8s.io/", "inferplan.dev/")

_PLAIN_AMIS = ("AL2023_x86_64_STANDARD", "BOTTLEROCKET_x86_64", "BOTTLEROCKET_x86_64_FIPS")
_NVIDIA_AMIS = ("AL2023_x86_64_NVIDIA", "BOTTLEROCKET_x86_64_NVIDIA", "BOTTLEROCKET_x86_64_NVIDIA_FIPS")


def _ami_type(ami: str) -> str:
    if ami.startswith("AL2_"):
        raise ValueError(
            f"{ami!r} is Amazon Linux 2, whose EKS images ended on 2025-11-26; use AL2023_x86_64_NVIDIA or a BOTTLEROCKET type"
        )
    known = aws_api.one_of(ami, aws_api.aws_api().ami_types, "AMI type")
    ours = (*_PLAIN_AMIS, *_NVIDIA_AMIS, "CUSTOM")
    if known not in ours:
        raise ValueError(f"{ami!r} is for instance types that pools do not support (ARM, Neuron or Windows). Use one of: {', '.join(ours)}")
    return known


def _volume_type(volume: str) -> str:
    known = aws_api.one_of(volume, aws_api.aws_api().volume_types, "volume type")
    if known not in ("gp3", "gp2", "io1", "io2"):
        raise ValueError(f"{volume!r} volumes cannot boot a node well; use gp3, or io2 where images must be read fast")
    return known


class PoolSize(Spec):
    """The minimum and maximum number of nodes. The cluster autoscaler decides the current number."""

    min: Annotated[int, Field(ge=0, le=MOST_NODES)] = 0
    """Minimum number of nodes. 0 allows an empty pool."""
    max: Annotated[int, Field(ge=1, le=MOST_NODES)]
    """Maximum number of nodes."""

    @model_validator(mode="after")
    def _the_range_is_no_contradiction(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min is {self.min} and max {self.max}; raise max or lower min")
        return self


class CapacityReservation(Spec):
    """The capacity block that was bought: its reservation, and the one zone that it is in."""

    id: Annotated[str, StringConstraints(pattern=r"^cr-([0-9a-f]{8}|[0-9a-f]{17})$")]
    """The reservation's id, such as cr-0123456789abcdef0."""
    zone: Zone


class RootVolume(Spec):
    """The encrypted EBS volume that a node boots from and, without localCache, keeps images and logs on."""

    size: Bytes | None = None
    """Default: room for the system and for two versions of every image that models run on this pool."""
    type: Annotated[str, AfterValidator(_volume_type)] = "gp3"
    """The volume's type as EBS spells it: gp3, or io2 where images must be read fast."""


class NodeUpdate(Spec):
    """How EKS replaces nodes when the AMI or the launch template changes."""

    max_unavailable: Annotated[int, Field(ge=1, le=100)] = 1
    """Maximum number of nodes that are unavailable at once."""
    strategy: Literal["DEFAULT", "MINIMAL"] | None = None
    """DEFAULT starts a successor first, MINIMAL stops a node first. Default: MINIMAL on a capacity block, which has no spare instance."""
    force: bool = False
    """Ends pods that a disruption budget still protects, once EKS has waited 15 minutes for them."""


class EksPool(Pool):
    """EC2 instances in EKS managed node groups, one group per capacity type."""

    provider: Literal["eks"]
    size: PoolSize
    instance_types: Annotated[list[MachineName], Field(min_length=1, max_length=20)] | None = None
    """EC2 instance types of the pool, with the same number of accelerators. Default: the accelerator's usual type."""
    capacity_types: Annotated[list[Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]], Field(min_length=1, max_length=2)] = ["ON_DEMAND"]
    """How instances are bought. With two values, the pool has two node groups, and the last one keeps `size.min`."""
    capacity_reservation: CapacityReservation | None = None
    """The capacity block, with capacityTypes: [CAPACITY_BLOCK]."""
    ami_type: Annotated[str, AfterValidator(_ami_type)] | None = None
    """The AMI type as EKS spells it. Default: AL2023_x86_64_NVIDIA with NVIDIA accelerators, AL2023_x86_64_STANDARD without."""
    ami_id: Annotated[str, StringConstraints(pattern=r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$")] | None = None
    """The image for amiType CUSTOM. It must carry nodeadm, as the AL2023 images for EKS do."""
    zones: Annotated[list[Zone], Field(min_length=1, max_length=6)] | None = None
    """Zones of the nodes. Default: all zones of the cluster."""
    efa: bool = False
    """Attaches every EFA interface that the instance type takes; replicas that span nodes request them. Needs a single zone."""
    placement_group: bool = False
    """Puts the nodes close together (strategy cluster), which needs a single zone."""
    root_volume: RootVolume = RootVolume()
    local_cache: bool = False
    """Joins the node's NVMe disks (RAID0) and keeps images, logs and emptyDir volumes on them."""
    hugepages2_mi: Annotated[Bytes | None, Field(alias="hugepages2Mi")] = None
    """2 MiB huge pages that a node reserves before its kubelet starts. Default: what Gaudi and EFA need."""
    labels: Labels = {}
    """Further labels on the nodes."""
    update: NodeUpdate = NodeUpdate()
    accept_scarcity: bool = False
    """Accepts spot capacity although one zone or one instance type is likely to run out."""

    @model_validator(mode="after")
    def _the_pool_can_exist(self) -> Self:
        faults = [*self._machine_faults(), *self._purchase_faults(), *self._image_faults(), *self._placement_faults()]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def machines(self) -> tuple[str, ...]:
        """The names of the machines, defaults applied."""
        if self.instance_types is not None:
            return tuple(self.instance_types)
        return (CPU_MACHINE if self.accelerator is None else accelerators.lookup(self.accelerator).machine,)

    @property
    def ami(self) -> str:
        """The AMI type, defaults applied."""
        if self.ami_type is not None:
            return self.ami_type
        vendor = None if self.accelerator is None else accelerators.lookup(self.accelerator).vendor
        return {"nvidia": "AL2023_x86_64_NVIDIA", "habana": "CUSTOM", None: "AL2023_x86_64_STANDARD"}[vendor]

    @property
    def hugepages_bytes(self) -> int:
        """2 MiB huge pages of a node, in bytes: what is written, else the least of the machines' figures."""
        if self.hugepages2_mi is not None:
            return bytes_of(self.hugepages2_mi)
        shapes = [machines.machine(name) for name in self.machines]
        return min(max(shape.hugepages_2mi_bytes, shape.efa_pages_bytes if self.efa else 0) for shape in shapes)

    @property
    def efa_cards(self) -> list[int]:
        """The network cards of a node that get an EFA interface: those of every instance type of the pool, none without `efa`."""
        cards = [set(machines.machine(name).efa_cards) for name in self.machines] if self.efa else [set[int]()]
        return sorted(set.intersection(*cards))

    @property
    def capacity(self) -> Capacity:
        """What any node of the pool offers to pods: of several machines, the least of each resource."""
        shapes = [machines.machine(name) for name in self.machines]
        offers = [machines.allocatable(shape) for shape in shapes]
        pages = self.hugepages_bytes
        return Capacity(
            cpu_millicores=min(each.cpu_millicores for each in offers),
            memory_bytes=min(each.memory_bytes + each.hugepages_2mi_bytes for each in offers) - pages,
            accelerators=offers[0].accelerators,
            hugepages_2mi_bytes=pages,
            efa=len(self.efa_cards),
            ephemeral_storage_bytes=min(each.ephemeral_storage_bytes for each in offers) if self.local_cache else self._root_for_pods(),
        )

    def _root_for_pods(self) -> int:
        # The kubelet keeps a tenth of the disk and 1 GiB back, as `machines.allocatable` says of every node.
        size = SMALLEST_ROOT if self.root_volume.size is None else bytes_of(self.root_volume.size)
        return size - size // 10 - _GI

    @property
    def update_strategy(self) -> str:
        """How nodes are replaced, defaults applied."""
        return self.update.strategy or ("MINIMAL" if "CAPACITY_BLOCK" in self.capacity_types else "DEFAULT")

    def _machine_faults(self) -> Iterator[str]:
        shapes = [machines.machine(name) for name in self.machines]
        if len({shape.name for shape in shapes}) < len(shapes):
            yield "instanceTypes names a type more than once; write each once"
        for shape in shapes:
            if shape.provider != "ec2" or shape.name not in aws_api.aws_api().instance_types:
                yield f"{shape.name} is no EC2 machine, so no node group can have it; EC2 has {_ec2(self.accelerator)}"
            elif shape.accelerator != self.accelerator:
                given = self.accelerator or "none"
                yield f"{shape.name} carries {shape.accelerator or 'no accelerator'}, the pool {given}; EC2 has {_ec2(self.accelerator)} for it"
        cards = {shape.name: shape.cards for shape in shapes}
        if len(set(cards.values())) > 1:
            listed = ", ".join(f"{name} {count}" for name, count in cards.items())
            yield f"the machines differ in cards ({listed}), and an autoscaler counts on every node being alike; keep those of one size"
        if self.local_cache and not all(shape.nvme_bytes for shape in shapes):
            without = ", ".join(shape.name for shape in shapes if not shape.nvme_bytes)
            yield f"localCache needs NVMe disks, and {without} has none; remove localCache, or use a machine that has some"

    def _purchase_faults(self) -> Iterator[str]:
        block = "CAPACITY_BLOCK" in self.capacity_types
        if len(set(self.capacity_types)) < len(self.capacity_types) or (block and len(self.capacity_types) > 1):
            yield f"capacityTypes {', '.join(self.capacity_types)} do not go together; write SPOT and ON_DEMAND, or one alone"
        if block != (self.capacity_reservation is not None):
            yield "CAPACITY_BLOCK and capacityReservation (id and zone) go together; write both or neither"
        if block and len(self.machines) > 1:
            yield f"a capacity block is of one machine type, and instanceTypes names {len(self.machines)}; keep the one that was bought"
        if block and self.zones is not None and self.capacity_reservation is not None and self.zones != [self.capacity_reservation.zone]:
            yield f"a capacity block is in one zone ({self.capacity_reservation.zone}), and zones says {', '.join(self.zones)}; leave zones out"
        if block and self.size.min > 0:
            yield "a capacity block begins and ends by the calendar, so nodes cannot be kept; write size.min: 0"
        if "SPOT" in self.capacity_types and not self.accept_scarcity and len(self.machines) < 2:
            yield (
                f"spot machines of one type ({self.machines[0]}) run dry together; name two instanceTypes at least, or say acceptScarcity: true"
            )

    def _image_faults(self) -> Iterator[str]:
        if (self.ami == "CUSTOM") != (self.ami_id is not None):
            cause = "no EKS image carries the driver of this machine" if self.ami_type is None else "amiType is CUSTOM"
            yield "amiId belongs to amiType: CUSTOM; remove it" if self.ami_id else f"{cause}, so amiId is needed: the image to boot"
        vendor = None if self.accelerator is None else accelerators.lookup(self.accelerator).vendor
        fitting = {"nvidia": (*_NVIDIA_AMIS, "CUSTOM"), "habana": ("CUSTOM",), None: (*_PLAIN_AMIS, "CUSTOM")}[vendor]
        if self.ami not in fitting:
            yield f"amiType {self.ami} has no driver for {self.accelerator or 'a machine without accelerator'}; use one of {', '.join(fitting)}"
        owned = sorted(key for key in self.labels if any(f"{key}/".startswith(prefix) or prefix in key for prefix in _OWNED_LABELS))
        if owned:
            yield f"labels names {', '.join(owned)}, which EKS or inferplan sets itself; remove it"
        if self.root_volume.size is not None and not 20 * _GI <= bytes_of(self.root_volume.size) <= 16384 * _GI:
            yield f"rootVolume.size {self.root_volume.size} is out of range; write 20Gi to 16Ti"

    def _placement_faults(self) -> Iterator[str]:
        zones = self.zones or []
        if len(set(zones)) < len(zones):
            yield "zones names a zone more than once; write each zone once"
        if self.efa and not all(machines.machine(name).efa for name in self.machines):
            without = ", ".join(name for name in self.machines if not machines.machine(name).efa)
            able = machines.ec2_types(self.accelerator, efa=True)
            remedy = f"write instanceTypes: [{able[0]}], or another of {', '.join(able)}" if able else "remove efa"
            yield f"efa: true needs instance types with EFA, and {without} has none; {remedy}"
        elif self.efa and len(zones) != 1 and self.capacity_reservation is None:
            yield "efa: true needs a single zone, since EFA traffic never leaves one; write zones: [<one zone>]"
        if self.placement_group and self.capacity_reservation is not None:
            yield "a capacity block is close together by itself, and a placement group may find no room within it; remove placementGroup"
        elif self.placement_group and len(zones) != 1:
            yield "placementGroup puts nodes close together, which is within one zone; write zones: [<one zone>]"


def _ec2(accelerator: str | None) -> str:
    return ", ".join(machines.ec2_types(accelerator)) or f"no machine with {accelerator}: such a pool is of provider existing"
