"""What the AWS API accepts, so that a plan refuses offline what AWS would refuse after ten minutes.

The values are data beside this module: `aws_api.json`, generated from botocore by `refresh_aws_api`, and the few facts
below that no service model carries. It calls nothing and knows no account, quota or price.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from components.nodes.names import named

# No service model lists versions (a test says when one does): EKS tells them to whoever asks, by DescribeClusterVersions. These
# bounds are the release calendar's (EKS user guide, "Understand the Kubernetes version lifecycle on EKS", read 2026-11): extended
# support of 1.31 ends on 2026-11-26, of 1.32 on 2027-03-23, and 1.36 is the newest that the guide names.
OLDEST_KUBERNETES, NEWEST_KUBERNETES = (1, 32), (1, 36)

# Where AWS launched machines that it does not offer everywhere ("Amazon EC2 DL1 instances", AWS blog, 2021-10).
ONLY_IN_REGIONS = {"dl1": ("us-east-1", "us-west-2")}


@dataclass(frozen=True, kw_only=True)
class AwsApi:
    """The enumerations of the service models of botocore release `botocore`."""

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
    """The table, read on first use."""
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
    """`value` where the API accepts it. Raises ValueError naming the nearest and every allowed value."""
    return named(value, {each: each for each in allowed}, noun)


def region_of_zone(zone: str) -> str:
    """The region of an availability zone's name: `us-east-1a` and the local zone `us-west-2-lax-1a` both start with theirs."""
    return next((region for region in sorted(aws_api().regions, key=len, reverse=True) if zone.startswith(region)), "")
