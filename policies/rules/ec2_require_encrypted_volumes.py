"""Disks of nodes are encrypted."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.fields import Field
from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(machine: Resource, _: Parameters) -> Findings:
    if machine.short_kind == "NodeGroup":
        # EKS makes the disks itself, by the account's default, unless a launch template says how.
        if machine.at("launchTemplate").absent:
            yield found(machine.at("launchTemplate"), "is not set, so disks may not be encrypted")
        return
    for encrypted in _disks(machine):
        if encrypted.value not in (True, "true"):
            yield found(encrypted, "is not true")


def _disks(machine: Resource) -> Iterator[Field]:
    """The `encrypted` field of each disk. Raises FieldError."""
    if machine.short_kind == "Volume":
        yield machine.at("encrypted")
    for mapping in machine.at("blockDeviceMappings").each():
        if not mapping.at("ebs").absent:
            yield mapping.at("ebs", "encrypted")
    if not machine.at("rootBlockDevice").absent:
        yield machine.at("rootBlockDevice", "encrypted")
    for disk in machine.at("ebsBlockDevices").each():
        yield disk.at("encrypted")


RULE = Rule(
    id="ec2-require-encrypted-volumes",
    title="Disks of nodes are encrypted",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EC2.7",
        "CKV_AWS_8",
        "CKV_AWS_3",
    ),
    why="They hold caches of weights and the kubelet's copies of Secrets",
    remedy=(
        "set encrypted: true on every disk: under blockDeviceMappings[].ebs, rootBlockDevice and ebsBlockDevices, or on the "
        "volume; give a node group a launchTemplate"
    ),
    subject=objects("aws:ec2:LaunchTemplate", "aws:ec2:Instance", "aws:ebs:Volume", "aws:eks:NodeGroup"),
    check=_check,
)
