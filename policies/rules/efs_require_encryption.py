"""EFS file systems are encrypted."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(system: Resource, _: Parameters) -> Findings:
    if system.at("encrypted").flag() is not True:
        yield found(system.at("encrypted"), "is not true")


RULE = Rule(
    id="efs-require-encryption",
    title="EFS file systems are encrypted",
    severity=Severity.HIGH,
    refs=(
        "Security Hub EFS.1",
        "CKV_AWS_42",
    ),
    why="A file system can be encrypted only when it is created",
    remedy="set encrypted: true",
    subject=objects("aws:efs:FileSystem"),
    check=_check,
)
