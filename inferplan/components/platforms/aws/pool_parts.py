"""The parts of a pool's settings: AMI and volume types, size, reservation, root volume, update."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.nodes.pool import MOST_NODES, Zone
from inferplan.components.platforms.aws import aws_api
from inferplan.components.spec import Bytes, FieldError, Spec, rule
from inferplan.hardware.accelerators import vendors
from inferplan.kube.quantity import bytes_of

PLAIN_AMIS = ("AL2023_x86_64_STANDARD", "BOTTLEROCKET_x86_64", "BOTTLEROCKET_x86_64_FIPS")
ARM_AMIS = ("AL2023_ARM_64_STANDARD", "BOTTLEROCKET_ARM_64", "BOTTLEROCKET_ARM_64_FIPS")
SubnetId = Annotated[
    str,
    StringConstraints(pattern=r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$"),
    Field(description="subnet-0123456789abcdef0"),
]
SecurityGroupId = Annotated[
    str,
    StringConstraints(pattern=r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$"),
    Field(description="sg-0123456789abcdef0"),
]


def supported_ami(ami: str) -> str:
    """Return `ami`. Raises ValueError if EKS does not have this AMI type, or pools do not support
    it.
    """
    if ami.startswith("AL2_"):
        raise ValueError(
            f"{ami!r} is Amazon Linux 2. AWS stopped publishing these images on 2025-11-26. Use"
            " AL2023_x86_64_NVIDIA or a BOTTLEROCKET type."
        )
    types = aws_api.one_of(ami, aws_api.aws_api().ami_types, "AMI type")
    with_drivers = (image for vendor in vendors().values() for image in vendor.ami_types)
    ours = (*PLAIN_AMIS, *ARM_AMIS, *with_drivers, "CUSTOM")
    if types not in ours:
        raise ValueError(
            f"{ami!r} is for instance types that pools do not support (ARM with GPUs, Neuron or"
            f" Windows). Use one of: {', '.join(ours)}"
        )
    return types


def volume_type(volume: str) -> str:
    """Return `volume`. Raises ValueError if EBS does not have this type, or a node cannot boot from
    it.
    """
    types = aws_api.one_of(volume, aws_api.aws_api().volume_types, "volume type")
    if types not in ("gp3", "gp2", "io1", "io2"):
        raise ValueError(
            f"{volume!r} volumes cannot boot a node well. Use gp3, or io2 where images must be read"
            " fast."
        )
    return types


class PoolSize(Spec):
    """The number of nodes: the least, that of the first day, and the most. Afterwards an autoscaler
    decides it.
    """

    min: Annotated[int, Field(ge=0, le=MOST_NODES)] = 0
    """Minimum number of nodes. 0 allows an empty pool."""
    desired: Annotated[int | None, Field(ge=0, le=MOST_NODES)] = None
    """Number of nodes when the pool is created; later changes have no effect, since an autoscaler
    owns the number. Default: min.
    """
    max: Annotated[int, Field(ge=1, le=MOST_NODES)]
    """Maximum number of nodes."""

    @rule
    def _check_range(self) -> Iterator[str]:
        if self.min > self.max:
            yield f"min is {self.min} and max {self.max}. Raise max or lower min"
        if not self.min <= self.initial <= self.max:
            yield (
                f"desired is {self.desired}, which is not between min ({self.min}) and max"
                f" ({self.max}). Use {self.min} to {self.max}"
            )

    @property
    def initial(self) -> int:
        return self.min if self.desired is None else self.desired

    def starting_with(self, nodes: int, *, keeps: bool) -> str:
        """Return the line of a stack file for `nodes` nodes from the first day, and always if the
        pool `keeps` them.
        """
        return f"size: {{{'min' if keeps else 'desired'}: {nodes}, max: {max(nodes, self.max)}}}"

    def growing_to(self, nodes: int) -> str:
        fields = {"min": self.min, "desired": self.desired, "max": nodes}
        return f"size: {{{', '.join(f'{key}: {value}' for key, value in fields.items() if value)}}}"


class CapacityReservation(Spec):
    """Reserved instances of one type in one zone: a capacity block with capacityTypes:
    [CAPACITY_BLOCK], else an on-demand reservation.
    """

    id: Annotated[str, StringConstraints(pattern=r"^cr-([0-9a-f]{8}|[0-9a-f]{17})$")]
    """The reservation's id, such as cr-0123456789abcdef0."""
    zone: Zone


_IOPS = {"gp3": (3_000, 80_000, 500), "io1": (100, 64_000, 50), "io2": (100, 256_000, 1_000)}
"""The least and the most IOPS of a volume, and the most for each GiB, by type (EC2 API reference,
EbsBlockDevice; EBS user guide, "Amazon EBS volume types"; read 2026-11).
"""


SMALLEST_ROOT = 100 * 2**30  # where its size is left to us: system, kubelet, one image


class RootVolume(Spec):
    """The encrypted EBS volume that a node boots from and, without localCache, keeps images and
    logs on.
    """

    size: Bytes | None = None
    """Default: room for the system and for two versions of every image that models run on this
    pool.
    """
    type: Annotated[str, AfterValidator(volume_type)] = "gp3"
    """The volume's type as EBS spells it: gp3, or io2 where images must be read fast."""
    iops: Annotated[int, Field(ge=100, le=256_000)] | None = None
    """I/O operations per second, which io1 and io2 need. Default: 3,000 with gp3."""
    throughput: Annotated[int, Field(ge=125, le=2_000)] | None = None
    """Throughput of a gp3 volume in MiB/s. Default: 125."""

    @property
    def bytes_for_pods(self) -> int:
        """The bytes that pods may use; the kubelet reserves a tenth of the disk and 1 GiB, as in
        `machines.allocatable`.
        """
        size = SMALLEST_ROOT if self.size is None else bytes_of(self.size)
        return size - size // 10 - 2**30

    @rule
    def _check_performance(self) -> Iterator[FieldError]:
        if self.type not in _IOPS:
            for field, value in (("iops", self.iops), ("throughput", self.throughput)):
                if value is not None:
                    remedy = "Remove it, or write type: gp3."
                    yield FieldError(f"EBS sets the {field} of {self.type} itself. {remedy}", field)
            return
        least, most, per_gib = _IOPS[self.type]
        if self.size is not None:
            most = min(most, max(least, per_gib * -(-bytes_of(self.size) // 2**30)))
        if self.iops is None and self.type != "gp3":
            yield FieldError(
                f"{self.type} volumes do not start without iops. Write iops: {least} to {most}, or"
                " type: gp3.",
                "type",
            )
        elif self.iops is not None and not least <= self.iops <= most:
            of_size = "" if self.size is None else f" of {self.size}"
            yield FieldError(
                f"A {self.type} volume{of_size} has {least} to {most} IOPS, not {self.iops}. Use a"
                " number in this range, or a larger size.",
                "iops",
            )
        if self.throughput is None:
            return
        needed = 4 * self.throughput
        if self.type != "gp3":
            yield FieldError(
                f"throughput is a setting of gp3, and an {self.type} volume gets it from its iops."
                " Remove it.",
                "throughput",
            )
        elif needed > (self.iops or least):
            yield FieldError(
                f"{self.throughput} MiB/s need {needed} IOPS (four for each MiB/s), and the volume"
                f" has {self.iops or least}. Write iops: {needed}, or throughput:"
                f" {(self.iops or least) // 4} at most.",
                "throughput",
            )


class NodeUpdate(Spec):
    """The replacement of nodes by EKS when the AMI or the launch template changes."""

    max_unavailable: Annotated[int, Field(ge=1, le=100)] = 1
    """Maximum number of nodes that are unavailable at once."""
    strategy: Literal["DEFAULT", "MINIMAL"] | None = None
    """DEFAULT starts a successor first, MINIMAL stops a node first. Default: MINIMAL with
    capacityReservation, which may have no spare instance.
    """
    force: bool = False
    """Ends pods that a disruption budget still protects, once EKS has waited 15 minutes for them.
    """
