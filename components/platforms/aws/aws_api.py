"""Values that the AWS API accepts, so that a plan rejects offline what AWS would reject after ten minutes.

The values are in `aws_api.json`, generated from botocore's service models by `python -m components.platforms.aws.aws_api` (botocore is
in the development group; no network), and in the constants below that no service model contains. It has no accounts, quotas or prices.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from components.nodes.accelerators import named

# No service model lists versions (a test fails when one does); EKS lists them with DescribeClusterVersions. These bounds are from
# the release calendar (EKS user guide, "Understand the Kubernetes version lifecycle on EKS", read 2026-11): extended
# support of 1.31 ends on 2026-11-26, of 1.32 on 2027-03-23, and 1.36 is the newest that the guide names.
OLDEST_KUBERNETES, NEWEST_KUBERNETES = (1, 32), (1, 36)

OUTPUT = Path(__file__).with_name("aws_api.json")


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
    data = json.loads(OUTPUT.read_text(encoding="utf-8"))
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


def generate() -> dict[str, Any]:
    """Return the content of the file from the installed botocore."""
    botocore = import_module("botocore")
    session = import_module("botocore.session").get_session()
    eks, ec2, efs = (session.get_service_model(name) for name in ("eks", "ec2", "efs"))
    return {
        "botocore": botocore.__version__,
        "regions": sorted(session.get_available_regions("eks")),
        "amiTypes": list(eks.shape_for("AMITypes").enum),
        "capacityTypes": list(eks.shape_for("CapacityTypes").enum),
        "taintEffects": list(eks.shape_for("TaintEffect").enum),
        "updateStrategies": list(eks.shape_for("NodegroupUpdateStrategies").enum),
        "logTypes": list(eks.shape_for("LogType").enum),
        "volumeTypes": list(ec2.shape_for("VolumeType").enum),
        "throughputModes": list(efs.shape_for("ThroughputMode").enum),
        "instanceTypes": _families(ec2.shape_for("InstanceType").enum),
    }


def rendered() -> str:
    """Return the text of the file, with one line per list for readable diffs."""
    lines = []
    for key, value in generate().items():
        if isinstance(value, dict):
            inner = ",\n".join(f"    {json.dumps(family)}: {json.dumps(sizes)}" for family, sizes in value.items())
            lines.append(f"  {json.dumps(key)}: {{\n{inner}\n  }}")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _families(types: Iterable[str]) -> dict[str, list[str]]:
    families: dict[str, list[str]] = defaultdict(list)
    for each in types:
        family, _, size = each.partition(".")
        families[family].append(size)
    return {family: sorted(families[family]) for family in sorted(families)}


if __name__ == "__main__":
    OUTPUT.write_text(rendered(), encoding="utf-8")
