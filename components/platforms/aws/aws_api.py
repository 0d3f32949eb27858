"""Values that the AWS API accepts, so that a plan rejects offline what AWS would reject after ten minutes.

The values are in `aws_api.json`, generated from botocore by `refresh_aws_api`, and in the constants below that no service model
contains. It calls no API and has no accounts, quotas or prices.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from components.nodes.accelerators import named

# No service model lists versions (a test fails when one does); EKS lists them with DescribeClusterVersions. These bounds are from
# the release calendar (EKS user guide, "Understand the Kubernetes version lifecycle on EKS", read 2026-11): extended
# support of 1.31 ends on 2026-11-26, of 1.32 on 2027-03-23, and 1.36 is the newest that the guide names.
OLDEST_KUBERNETES, NEWEST_KUBERNETES = (1, 32), (1, 36)

# Regions of instance families that are not available everywhere ("Amazon EC2 DL1 instances", AWS blog, 2021-10).
ONLY_IN_REGIONS = {"dl1": ("us-east-1", "us-west-2")}


@dataclass(frozen=True, kw_only=True)
class AwsApi:
    """Enumerations from the service models of botocore release `botocore`."""

    botocore: str
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
    """Return the table, which is read on first use."""
    data = json.loads(Path(__file__).with_name("aws_api.json").read_text(encoding="utf-8"))
    return AwsApi(
        botocore=data["botocore"],
        regions=tuple(data["regions"]),
        ami_types=tuple(data["amiTypes"]),
        capacity_types=tuple(data["capacityTypes"]),
        taint_effects=tuple(data["taintEffects"]),
        update_strategies=tuple(data["updateStrategies"]),
        log_types=tuple(data["logTypes"]),
        volume_types=tuple(data["volumeTypes"]),
        throughput_modes=tuple(data["throughputModes"]),
        instance_types=frozenset(f"{family}.{size}" for family, sizes in data["instanceTypes"].items() for size in sizes),
    )


def one_of(value: str, allowed: tuple[str, ...], noun: str) -> str:
    """Return `value`. Raises ValueError with the nearest and all supported values if the API does not accept it."""
    return named(value, {each: each for each in allowed}, noun)


def region_of_zone(zone: str) -> str:
    """Return the region of a zone: the names `us-east-1a` and `us-west-2-lax-1a` (a local zone) start with their region."""
    return next((region for region in sorted(aws_api().regions, key=len, reverse=True) if zone.startswith(region)), "")
