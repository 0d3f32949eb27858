"""Values that the AWS API accepts (`aws_api.json`) and offers of instance types (`offerings.json`):
a plan rejects the others offline.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from inferplan.hardware.accelerators import named

# No service model lists versions (a test fails when one does); EKS lists them with
# DescribeClusterVersions. These bounds are from the release calendar (EKS user guide, "Understand
# the Kubernetes version lifecycle on EKS", read 2026-11): extended support of 1.31 ends on
# 2026-11-26, of 1.32 on 2027-03-23, and 1.36 is the newest that the guide names.
OLDEST_KUBERNETES, NEWEST_KUBERNETES = (1, 32), (1, 36)

API_FILE = Path(__file__).with_name("aws_api.json")
OFFERINGS_FILE = Path(__file__).with_name("offerings.json")


@dataclass(frozen=True, kw_only=True)
class AwsApi:
    """Enumerations from the service models of botocore."""

    regions: tuple[str, ...]
    ami_types: tuple[str, ...]
    capacity_types: tuple[str, ...]
    taint_effects: tuple[str, ...]
    update_strategies: tuple[str, ...]
    log_types: tuple[str, ...]
    volume_types: tuple[str, ...]
    throughput_modes: tuple[str, ...]
    instance_types: frozenset[str]


@cache
def aws_api() -> AwsApi:
    """Return the enumerations, which are read on first use."""
    data = json.loads(API_FILE.read_text(encoding="utf-8"))
    types = frozenset(
        f"{family}.{size}" for family, sizes in data["families"].items() for size in sizes
    )
    return AwsApi(
        instance_types=types,
        **{name: tuple(values) for name, values in data["enumerations"].items()},
    )


def one_of(value: str, allowed: tuple[str, ...], noun: str) -> str:
    """Return `value`. Raises ValueError with the nearest and all supported values if the API does
    not accept it.
    """
    return named(value, {each: each for each in allowed}, noun)


def region_of_zone(zone: str) -> str:
    """Return the region of a zone: the names `us-east-1a` and `us-west-2-lax-1a` (a local zone)
    start with their region.
    """
    return next(
        (
            region
            for region in sorted(aws_api().regions, key=len, reverse=True)
            if zone.startswith(region)
        ),
        "",
    )


@cache
def offerings() -> Mapping[str, Mapping[str, int]]:
    """Return the number of zones that offer a type with accelerators, by type and region. `regions`
    holds that of all zones of a region.

    Zones are counted, not named: us-east-1a of one account is us-east-1c of another (EC2 user
    guide, "Availability Zone IDs", read 2026-11).
    """
    return json.loads(OFFERINGS_FILE.read_text(encoding="utf-8"))["zones"]


def regions_instead(instance_type: str, region: str) -> tuple[str, ...]:
    """Return the regions that offer `instance_type` if `region` does not; empty if it does, or
    nothing is known.
    """
    counts = offerings().get(instance_type, {})
    return (
        tuple(counts)
        if counts and region in offerings()["regions"] and region not in counts
        else ()
    )


def scarce_types(
    instance_types: Iterable[str], region: str, zones: Collection[str]
) -> Iterator[str]:
    """Yield a sentence on the instance types that possibly none of `zones` offers; none if the
    zones are unknown.
    """
    every = offerings()["regions"].get(region, 0)
    counts = {name: offerings().get(name, {}).get(region) for name in instance_types}
    scarce = {
        name: count
        for name, count in counts.items()
        if count is not None and 0 < len(zones) <= every - count
    }
    if scarce:
        types = ", ".join(f"{name} in {count}" for name, count in scarce.items())
        yield (
            f"of the {every} zones of {region}, whose names differ by account, EC2 offers {types}. "
            f"inferplan doctor asks whether {', '.join(zones)} is among yours."
        )
