"""The table of instance types (`machines.csv`, `ec2_cpu.csv`, read on first use): their resources,
and those that are left for pods.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from inferplan.hardware.accelerators import named
from inferplan.tables import table

CPU_FILE = Path(__file__).with_name("ec2_cpu.csv")
"""The EC2 instance types without accelerators that `machines.csv` does not list; written by
`inferplan/components/platforms/aws/tables.py`.
"""
_CPU_SOURCE, _CPU_READ = "DescribeInstanceTypes as recorded by moto 5.2.5", "2026-11"
_MI = 2**20
_GI = 2**30
# Memory that the kernel keeps for contiguous allocations on Graviton (aws/karpenter-provider-aws,
# instancetype/types.go, read 2026-11).
_CONTIGUOUS_BYTES = {"x86_64": 0, "arm64": 64 * _MI}
# Root volume of a node without an instance store: a common size, enough for the system and one
# engine image.
_ROOT_VOLUME = 100 * _GI


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The allocatable resources of one node. Sizes in bytes, CPU in millicores, `accelerators` in
    devices, `efa` in interfaces.
    """

    cpu_millicores: int
    memory_bytes: int
    accelerators: int = 0
    hugepages_2mi_bytes: int = 0
    ephemeral_storage_bytes: int = 0
    efa: int = 0


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One instance type: nominal figures, before kernel and kubelet reserve resources; `efa` counts
    network cards that take EFA.
    """

    name: str
    provider: str
    accelerator: str | None
    accelerator_count: int
    cpu: int
    memory_bytes: int
    nvme_bytes: int
    network_cards: int
    efa: int
    hugepages_2mi_bytes: int
    max_pods: int
    architecture: Literal["x86_64", "arm64"]
    source: str
    read: str

    @property
    def efa_cards(self) -> range:
        """The indexes of the network cards that take an EFA interface: the last ones, where the
        first takes none.

        p6-b300.48xlarge has 17 of them and takes 16 EFA interfaces (aws/karpenter-provider-aws
        zz_generated.vpclimits.go of 2026-08-06).
        """
        return range(self.network_cards - self.efa, self.network_cards)

    @property
    def efa_pages_bytes(self) -> int:
        """2 MiB huge pages that EFA's installer sets aside on a node, in bytes: 220 MiB for each
        vCPU and one page.

        AWS's own nodes show 21122Mi on p4de.24xlarge and 42242Mi on p5.48xlarge
        (aws-samples/awsome-distributed-training, nemo1.0/EKS and stable-diffusion, read 2026-11).
        Bottlerocket runs no installer.
        """
        return (220 * self.cpu + 2) * _MI


def machine(name: str) -> Machine:
    """Return the machine `name`. Raises ValueError with the nearest name, and all names of its
    family or of `machines.csv`.
    """
    if (match := machines().get(name)) is not None:
        return match
    if (row := cpu_rows().get(name)) is not None:
        return _machine(row)
    family = {
        each: _machine(row)
        for each, row in cpu_rows().items()
        if each.partition(".")[0] == name.partition(".")[0]
    }
    return named(name, family or machines(), "instance type")


@cache
def cpu_rows() -> dict[str, dict[str, str]]:
    """Return a row for each instance type of `ec2_cpu.csv` by its name, with the columns of
    `machines.csv`.
    """
    common = {
        "provider": "ec2",
        "accelerator": "",
        "accelerators": "0",
        "networkCards": "1",
        "efa": "0",
        "hugepages2MiMiB": "0",
    }
    rows = {}
    for family in table("hardware/ec2_cpu.csv"):
        for size in family["sizes"].split():
            name, *figures = size.split(":")
            shape = dict(
                zip(("cpu", "memoryGiB", "nvmeGB", "maxPods"), figures, strict=True),
                architecture=family["architecture"],
            )
            row = {
                **common,
                **shape,
                "name": f"{family['family']}.{name}",
                "source": _CPU_SOURCE,
                "read": _CPU_READ,
            }
            rows[row["name"]] = row
    return rows


@cache
def machines() -> Mapping[str, Machine]:
    """Return every row by name, in the table's order."""
    return {row["name"]: _machine(row) for row in table("hardware/machines.csv")}


@cache
def ec2_devices() -> Mapping[str, tuple[str, int]]:
    """Return the resource and the number of accelerators of each EC2 instance type that a table
    lists, ("", 0) for types without accelerators.

    `ec2_other.csv` has the types that no pool can name, but that other people's stacks have.
    """
    rows = (*table("hardware/ec2.csv"), *table("hardware/ec2_other.csv"))
    return {row["type"]: (row["resource"], int(row["accelerators"] or 0)) for row in rows}


def machines_of(accelerator: str | None) -> tuple[Machine, ...]:
    """Return the machines with `accelerator`, in the table's order; CPU machines for None."""
    return tuple(each for each in machines().values() if each.accelerator == accelerator)


def ec2_types(accelerator: str | None, *, efa: bool = False) -> list[str]:
    """Return the EC2 instance types with `accelerator`, in the table's order; with `efa` those that
    take an EFA interface.
    """
    return [
        each.name
        for each in machines_of(accelerator)
        if each.provider == "ec2" and (each.efa or not efa)
    ]


def nominal(shape: Machine) -> Capacity:
    """Return what the node reports as `status.capacity`: all that the kernel sees (7.5% of memory
    goes to the hypervisor and the kernel).

    Karpenter subtracts the same 7.5% (`vmMemoryOverheadPercent`, aws/karpenter-provider-aws, read
    2026-08).
    """
    memory = shape.memory_bytes - _CONTIGUOUS_BYTES[shape.architecture]
    overhead = math.ceil(memory * 0.075 / _MI) * _MI
    return Capacity(
        cpu_millicores=shape.cpu * 1000,
        memory_bytes=memory - overhead,
        accelerators=shape.accelerator_count,
        hugepages_2mi_bytes=shape.hugepages_2mi_bytes,
        ephemeral_storage_bytes=shape.nvme_bytes or _ROOT_VOLUME,
    )


def allocatable(shape: Machine) -> Capacity:
    """Return what the node offers to pods: capacity less the reservations of the kubelet of an EKS
    node.

    Memory: 255 MiB and 11 MiB for each pod that the node may take, 100 MiB eviction threshold, and
    all huge pages, which Kubernetes takes out of plain memory. CPU: 6% of the first core, 1% of the
    second, 0.5% of the next two, 0.25% of the rest. Ephemeral storage: 1 GiB and 10%.
    (awslabs/amazon-eks-ami and aws/karpenter-provider-aws pkg/providers/instancetype/types.go, read
    2026-08; a server elsewhere mostly keeps back less.)
    """
    whole = nominal(shape)
    cores = shape.cpu * 1000
    # Ten-thousandths of a millicore, so that no rounding of fractions can differ between machines.
    shares = ((0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, cores, 25))
    kept = sum(max(min(cores, high) - low, 0) * share for low, high, share in shares) // 10_000
    return replace(
        whole,
        cpu_millicores=cores - kept,
        memory_bytes=whole.memory_bytes
        - (255 + 11 * shape.max_pods + 100) * _MI
        - shape.hugepages_2mi_bytes,
        ephemeral_storage_bytes=whole.ephemeral_storage_bytes
        - math.ceil(whole.ephemeral_storage_bytes / 10)
        - _GI,
    )


def _machine(row: dict[str, str]) -> Machine:
    return Machine(
        name=row["name"],
        provider=row["provider"],
        accelerator=row["accelerator"] or None,
        accelerator_count=int(row["accelerators"]),
        cpu=int(row["cpu"]),
        memory_bytes=int(row["memoryGiB"]) * _GI,
        nvme_bytes=int(row["nvmeGB"]) * 10**9,
        network_cards=int(row["networkCards"]),
        efa=int(row["efa"]),
        hugepages_2mi_bytes=int(row["hugepages2MiMiB"]) * _MI,
        max_pods=int(row["maxPods"]),
        architecture="arm64" if row.get("architecture") == "arm64" else "x86_64",
        source=row["source"],
        read=row["read"],
    )
