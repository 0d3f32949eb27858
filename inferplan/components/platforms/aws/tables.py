"""Writes the tables of AWS's API and of EC2 without a network: `python -m
inferplan.components.platforms.aws.tables`.

botocore's service models give the enumerations. The answers of AWS that moto records give the
offers (DescribeInstanceTypeOfferings) and the instance types without accelerators
(DescribeInstanceTypes, for the types in inferplan/hardware/ec2.csv). Both are in the development
group.
"""

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from inferplan.components.platforms.aws.aws_api import API_FILE, OFFERINGS_FILE
from inferplan.hardware.machines import CPU_FILE, machines

_PRICES = Path(__file__).parents[3] / "hardware" / "ec2.csv"
# A type that moto does not list ("Amazon EC2 DL1 instances", AWS blog, 2021-10).
_FURTHER = {"dl1.24xlarge": {"us-east-1": 1, "us-west-2": 1}}
# Field of AwsApi: service and shape.
_ENUMERATIONS = {
    "ami_types": ("eks", "AMITypes"),
    "capacity_types": ("eks", "CapacityTypes"),
    "taint_effects": ("eks", "TaintEffect"),
    "update_strategies": ("eks", "NodegroupUpdateStrategies"),
    "log_types": ("eks", "LogType"),
    "volume_types": ("ec2", "VolumeType"),
    "throughput_modes": ("efs", "ThroughputMode"),
}


def enumerations() -> str:
    botocore = import_module("botocore")
    session = import_module("botocore.session").get_session()
    services = {name: session.get_service_model(name) for name in ("eks", "ec2", "efs")}
    values = {
        name: list(services[service].shape_for(shape).enum)
        for name, (service, shape) in _ENUMERATIONS.items()
    }
    families: dict[str, list[str]] = defaultdict(list)
    for each in sorted(services["ec2"].shape_for("InstanceType").enum):
        family, _, size = each.partition(".")
        families[family].append(size)
    parts = {
        "enumerations": {"regions": sorted(session.get_available_regions("eks")), **values},
        "families": families,
    }
    return _json("botocore", botocore.__version__, parts)


def offerings() -> str:
    moto = import_module("moto")
    folder = (
        Path(str(moto.__file__)).with_name("ec2")
        / "resources"
        / "instance_type_offerings"
        / "availability-zone"
    )
    offers = {
        path.name.removesuffix(".json.gz"): [
            (each["InstanceType"], each["Location"]) for each in _unpacked(path)
        ]
        for path in sorted(folder.glob("*.json.gz"))
    }
    zones: dict[str, dict[str, int]] = {
        "regions": {region: len({zone for _, zone in rows}) for region, rows in offers.items()}
    }
    for machine in machines().values():
        if machine.accelerator is not None and machine.provider == "ec2":
            counts = {
                region: sum(name == machine.name for name, _ in rows)
                for region, rows in offers.items()
            }
            zones[machine.name] = _FURTHER.get(machine.name) or {
                region: count for region, count in counts.items() if count
            }
    return _json("moto", moto.__version__, {"zones": zones})


def cpu_types() -> str:
    """Return the text of `ec2_cpu.csv`: virtual, with a list price, one line per family."""
    types = _unpacked(
        Path(str(import_module("moto").__file__)).with_name("ec2")
        / "resources"
        / "instance_types.json.gz"
    )
    with _PRICES.open(encoding="utf-8", newline="") as table:
        priced = {row["type"] for row in csv.DictReader(table) if not row["resource"]}
    families: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for name in sorted(priced & types.keys() - machines().keys()):
        family, _, size = name.partition(".")
        families[family, types[name]["ProcessorInfo"]["SupportedArchitectures"][0]].append(
            _size(size, types[name])
        )
    lines = [
        f"{family},{architecture},{' '.join(text for _, text in sorted(sizes))}"
        for (family, architecture), sizes in families.items()
    ]
    return "\n".join(["family,architecture,sizes", *lines, ""])


def _size(size: str, shape: dict[str, Any]) -> tuple[int, str]:
    """Return the vCPUs, and the size with vCPUs, memory in GiB, NVMe in GB, and the pods for which
    the VPC CNI has addresses.
    """
    network, cpu = shape["NetworkInfo"], shape["VCpuInfo"]["DefaultVCpus"]
    interfaces = network["NetworkCards"][network["DefaultNetworkCardIndex"]][
        "MaximumNetworkInterfaces"
    ]
    pods = interfaces * (network["Ipv4AddressesPerInterface"] - 1) + 2
    nvme = shape.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    return cpu, f"{size}:{cpu}:{shape['MemoryInfo']['SizeInMiB'] // 1024}:{nvme}:{pods}"


def _unpacked(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def _json(source: str, version: str, parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the tables as JSON with one line per row, for readable diffs."""
    texts = [f'  "{source}": "{version}"']
    for part, rows in parts.items():
        lines = ",\n".join(
            f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()
        )
        texts.append(f'  "{part}": {{\n{lines}\n  }}')
    return "{\n" + ",\n".join(texts) + "\n}\n"


TABLES: Mapping[Path, Callable[[], str]] = {
    API_FILE: enumerations,
    OFFERINGS_FILE: offerings,
    CPU_FILE: cpu_types,
}

if __name__ == "__main__":
    for path, text in TABLES.items():
        path.write_text(text(), encoding="utf-8")
