"""Disks of nodes are encrypted."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(template: Resource, _: Parameters) -> Findings:
    for mapping in template.at("blockDeviceMappings").each():
        encrypted = mapping.at("ebs", "encrypted")
        if not mapping.at("ebs").absent and encrypted.value not in (True, "true"):
            yield found(encrypted, "is not true")


RULE = Rule(
    id="ec2-require-encrypted-volumes",
    title="Disks of nodes are encrypted",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EC2.7",
        "CKV_AWS_8",
        "CKV_AWS_3",
    ),
    why="Caches of weights and kubelet's Secrets lie on them",
    remedy="set ebs.encrypted: true in blockDeviceMappings",
    subject=objects("aws:ec2:LaunchTemplate"),
    check=_check,
)
