"""Karpenter in a rehearsal: the EC2 instance types that it may choose from, and what it bought for
the pools of EKS Auto Mode.
"""

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from typing import Any

from inferplan.hardware.accelerators import lookup
from inferplan.hardware.machines import Machine, allocatable, machines
from inferplan.hardware.prices import price_list
from inferplan.kube.names import EPHEMERAL_STORAGE, HUGEPAGES, ZONE_LABEL
from inferplan.progress import Progress
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.cluster.karpenter import Purchase
from inferplan.stackfile.stack import StackSettings

# The kwok provider takes these off what a node has (kwok/cloudprovider/helpers.go, v1.14.1); our
# figures are those after it.
_KEPT_MILLICORES = 100
_KEPT_MEBIBYTES = 10
_FAMILY = re.compile(r"^([a-z]+)([0-9]+)")


def bought_pools(settings: StackSettings) -> dict[str, tuple[str, ...]]:
    where = settings.cluster.location
    return {
        name: pool.location(where).zones
        for name, pool in settings.node_pools.items()
        if pool.is_auto_mode
    }


@contextlib.contextmanager
def buying(settings: StackSettings, cluster: Cluster, progress: Progress) -> Iterator[None]:
    """Run Karpenter on `cluster` until the block ends, for the pools of `settings`; it is built
    first if it is not in the cache.
    """
    from inferplan.rehearsal.cluster.karpenter import karpenter

    zones = {zone for each in bought_pools(settings).values() for zone in each}
    with karpenter(cluster, instance_types(zones), progress):
        yield


def purchase_lines(purchases: Iterable[Purchase], region: str = "") -> Iterator[str]:
    """A line for each instance type that Karpenter bought for a pool, and their total. `region` is
    that of the stack.
    """
    total = 0 * price_list().hours
    for each in purchases:
        cost = each.count * each.usd_per_hour
        total += cost
        yield (
            f"Karpenter bought {each.count} x {each.instance_type} ({each.capacity_type}) for"
            f" {each.pool}: {cost:.2f} USD per hour"
        )
    if total:
        prices = price_list()
        yield (
            f"together {total:.2f} USD per hour, list prices of {prices.date} in {prices.region};"
            " spot nodes at the lowest share"
        )
        if region and region != prices.region:
            yield f"the stack is in {region}, whose prices differ"


def instance_types(zones: Collection[str]) -> list[dict[str, Any]]:
    """The instance types in `zones`, in the form of Karpenter's kwok provider; spot nodes cost the
    least that AWS names.
    """
    prices = price_list()
    rows = (
        (machine, prices.machines[name].usd_per_hour)
        for name, machine in machines().items()
        if name in prices.machines
    )
    return [
        _instance_type(machine, zones, price, prices.spot_lowest)
        for machine, price in rows
        if price is not None
    ]


def _instance_type(
    machine: Machine, zones: Collection[str], price: Decimal, spot: Decimal
) -> dict[str, Any]:
    costs = {"on-demand": price, "spot": price * spot}
    # EKS sets the first label on every node of Auto Mode.
    labels = {"eks.amazonaws.com/compute-type": "auto"} | {
        f"eks.amazonaws.com/{key}": value for key, value in _labels(machine)
    }
    return {
        "name": machine.name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": dict(_resources(machine)),
        "offerings": [
            {
                "Price": float(cost),
                "Available": True,
                "Requirements": [
                    {"key": key, "operator": "In", "values": [value]}
                    for key, value in {
                        **labels,
                        "karpenter.sh/capacity-type": kind,
                        ZONE_LABEL: zone,
                    }.items()
                ],
            }
            for kind, cost in costs.items()
            for zone in sorted(zones)
        ],
    }


def _labels(machine: Machine) -> Iterator[tuple[str, str]]:
    """The labels of an Auto Mode node that follow from its type, besides those of the kwok provider
    (family, size, CPU, memory).
    """
    family = _FAMILY.match(machine.name)
    if family is not None:
        yield "instance-category", family.group(1)[0]
        yield "instance-generation", family.group(2)
    if machine.accelerator is not None:
        hardware = lookup(machine.accelerator)
        yield "instance-gpu-manufacturer", hardware.vendor.name
        yield "instance-gpu-count", str(machine.accelerator_count)
        yield "instance-gpu-name", machine.accelerator.partition("-")[2]


def _resources(machine: Machine) -> Iterator[tuple[str, str]]:
    offer = allocatable(machine)
    yield "cpu", f"{offer.cpu_millicores + _KEPT_MILLICORES}m"
    yield "memory", f"{offer.memory_bytes // 2**20 + _KEPT_MEBIBYTES}Mi"
    yield EPHEMERAL_STORAGE, f"{offer.ephemeral_storage_bytes // 2**20}Mi"
    yield "pods", str(machine.max_pods)
    if offer.hugepages_2mi_bytes:
        yield HUGEPAGES, f"{offer.hugepages_2mi_bytes // 2**20}Mi"
    if machine.accelerator is not None:
        yield lookup(machine.accelerator).resource, str(machine.accelerator_count)
