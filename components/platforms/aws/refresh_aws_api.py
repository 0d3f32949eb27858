"""Regenerates `aws_api.json` from botocore's service models: `python -m components.platforms.aws.refresh_aws_api`.

It needs botocore from the development group, and no network.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("aws_api.json")


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
