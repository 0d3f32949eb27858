"""Containers cannot write to their image."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    field = container.at("securityContext", "readOnlyRootFilesystem")
    if field.flag() is not True:
        yield found(field, "is not true")


RULE = Rule(
    id="pod-require-read-only-root",
    title="Containers cannot write to their image",
    severity=Severity.MEDIUM,
    refs=(
        "CIS EKS 4.2",
        "NSA-CISA: immutable container file systems",
    ),
    why="What cannot be written cannot be replaced by an attacker, nor fill the node's disk unseen",
    remedy="set securityContext.readOnlyRootFilesystem: true and mount an emptyDir with a sizeLimit where the program writes",
    subject=CONTAINERS,
    check=_check,
)
