"""The EC2 instance types without accelerators that `machines.csv` does not list: current generation, virtual, with a list price.

`ec2_cpu.csv` has one line per family. It is generated from the answers of DescribeInstanceTypes that moto records, for the types in
review/data/ec2.csv, by `python -m components.nodes.ec2_cpu` (moto is in the development group; no network).
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("ec2_cpu.csv")
SOURCE, READ = "DescribeInstanceTypes as recorded by moto 5.2.5", "2026-11"
_PRICES = Path(__file__).parents[2] / "review" / "data" / "ec2.csv"


@cache
def rows() -> dict[str, dict[str, str]]:
    """Return a row for each instance type by its name, with the columns of `machines.csv`."""
    with OUTPUT.open(encoding="utf-8", newline="") as table:
        families = list(csv.DictReader(table))
    return {
        f"{each['family']}.{size}": {
            "name": f"{each['family']}.{size}",
            "provider": "ec2",
            "accelerator": "",
            "cards": "0",
            "networkCards": "1",
            "efa": "0",
            "cpu": cpu,
            "memoryGiB": memory,
            "nvmeGB": nvme,
            "maxPods": pods,
            "hugepages2MiMiB": "0",
            "architecture": each["architecture"],
            "source": SOURCE,
            "read": READ,
        }
        for each in families
        for size, cpu, memory, nvme, pods in (text.split(":") for text in each["sizes"].split())
    }


def rendered() -> str:
    """Return the text of the file."""
    from components.nodes.machines import machines

    moto = import_module("moto")
    types = json.loads(gzip.decompress((Path(str(moto.__file__)).with_name("ec2") / "resources" / "instance_types.json.gz").read_bytes()))
    with _PRICES.open(encoding="utf-8", newline="") as table:
        priced = {row["type"] for row in csv.DictReader(table) if not row["resource"]}
    families: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for name in sorted(priced & types.keys() - machines().keys()):
        family, _, size = name.partition(".")
        families[family, types[name]["ProcessorInfo"]["SupportedArchitectures"][0]].append(_size(size, types[name]))
    lines = [f"{family},{architecture},{' '.join(text for _, text in sorted(sizes))}" for (family, architecture), sizes in families.items()]
    return "\n".join(["family,architecture,sizes", *lines, ""])


def _size(size: str, shape: dict[str, Any]) -> tuple[int, str]:
    """Return the vCPUs, and the size with vCPUs, memory in GiB, NVMe in GB, and the pods for which the VPC CNI has addresses."""
    network, cpu = shape["NetworkInfo"], shape["VCpuInfo"]["DefaultVCpus"]
    interfaces = network["NetworkCards"][network["DefaultNetworkCardIndex"]]["MaximumNetworkInterfaces"]
    pods = interfaces * (network["Ipv4AddressesPerInterface"] - 1) + 2
    nvme = shape.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    return cpu, f"{size}:{cpu}:{shape['MemoryInfo']['SizeInMiB'] // 1024}:{nvme}:{pods}"


if __name__ == "__main__":
    OUTPUT.write_text(rendered(), encoding="utf-8")
