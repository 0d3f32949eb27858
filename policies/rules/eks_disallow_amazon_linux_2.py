"""Nodes run a maintained operating system."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(group: Resource, _: Parameters) -> Findings:
    if group.at("amiType").text().startswith("AL2_"):
        yield found(group.at("amiType"), "is Amazon Linux 2")


RULE = Rule(
    id="eks-disallow-amazon-linux-2",
    title="Nodes run a maintained operating system",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EKS.2",
        "inference",
    ),
    why="AWS stopped releasing Amazon Linux 2 images for EKS on 2025-11-26, so their drivers and kernels get no fixes",
    remedy="use AL2023_x86_64_NVIDIA, AL2023_x86_64_STANDARD or BOTTLEROCKET_x86_64_NVIDIA",
    subject=objects("aws:eks:NodeGroup"),
    check=_check,
)
