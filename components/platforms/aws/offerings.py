"""Regions that offer the instance types with accelerators, and the number of their zones that do.

`offerings.json` is generated from the answers of DescribeInstanceTypeOfferings that moto records, by
`python -m components.platforms.aws.offerings` (moto is in the development group; no network). Zones are counted, not named: us-east-1a of
one account is us-east-1c of another (EC2 user guide, "Availability Zone IDs", read 2026-11). A type or region outside the table is unknown.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from components.nodes import machines

# A type that moto does not list ("Amazon EC2 DL1 instances", AWS blog, 2021-10).
_FURTHER = {"dl1.24xlarge": {"us-east-1": 1, "us-west-2": 1}}
OUTPUT = Path(__file__).with_name("offerings.json")


@cache
def offerings() -> Mapping[str, Mapping[str, int]]:
    """Return the number of zones by instance type and region. `regions` holds that of all zones of a region."""
    return json.loads(OUTPUT.read_text(encoding="utf-8"))["zones"]


def missing_in(instance_type: str, region: str) -> tuple[str, ...]:
    """Return the regions that offer `instance_type` if `region` does not; empty if it does, or nothing is known."""
    known = offerings().get(instance_type, {})
    return tuple(known) if known and region in offerings()["regions"] and region not in known else ()


def doubts(instance_types: Iterable[str], region: str, zones: Collection[str]) -> Iterator[str]:
    """Yield a sentence on the instance types that possibly none of `zones` offers; none if the zones are unknown."""
    every = offerings()["regions"].get(region, 0)
    counts = {name: offerings().get(name, {}).get(region) for name in instance_types}
    scarce = {name: count for name, count in counts.items() if count is not None and 0 < len(zones) <= every - count}
    if scarce:
        types = ", ".join(f"{name} in {count}" for name, count in scarce.items())
        yield (
            f"of the {every} zones of {region}, whose names differ by account, EC2 offers {types}. "
            f"inferplan doctor asks whether {', '.join(zones)} is among yours."
        )


def rendered() -> str:
    """Return the text of the file, with one line per instance type for readable diffs."""
    moto = import_module("moto")
    folder = Path(str(moto.__file__)).with_name("ec2") / "resources" / "instance_type_offerings" / "availability-zone"
    places = {
        path.name.removesuffix(".json.gz"): [
            (each["InstanceType"], each["Location"]) for each in json.loads(gzip.decompress(path.read_bytes()))
        ]
        for path in sorted(folder.glob("*.json.gz"))
    }
    zones: dict[str, dict[str, int]] = {"regions": {region: len({zone for _, zone in rows}) for region, rows in places.items()}}
    for machine in machines.machines().values():
        if machine.accelerator is not None and machine.provider == "ec2":
            counts = {region: sum(name == machine.name for name, _ in rows) for region, rows in places.items()}
            zones[machine.name] = _FURTHER.get(machine.name) or {region: count for region, count in counts.items() if count}
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(counts)}" for name, counts in zones.items())
    return f'{{\n  "moto": {json.dumps(moto.__version__)},\n  "zones": {{\n{lines}\n  }}\n}}\n'


if __name__ == "__main__":
    OUTPUT.write_text(rendered(), encoding="utf-8")
