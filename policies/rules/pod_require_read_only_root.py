"""Containers have a read-only root file system."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    field = container.at("securityContext", "readOnlyRootFilesystem")
    # NVIDIA's container hook writes ld.so.cache into the root when it adds the driver's libraries (kserve config-llm-template, read 2026-11).
    if field.flag() is not True and not any(vendor == "nvidia" for vendor, _, _ in container.accelerators()):
        yield found(field, "is not true")


RULE = Rule(
    id="pod-require-read-only-root",
    title="Containers have a read-only root file system",
    severity=Severity.MEDIUM,
    refs=(
        "CIS EKS 4.2",
        "NSA-CISA: immutable container file systems",
    ),
    why=(
        "An attacker cannot replace files that cannot be written, and nothing fills the node's disk unnoticed. Containers with "
        "NVIDIA accelerators are exempt, because NVIDIA's hook writes to their root file system"
    ),
    remedy="set securityContext.readOnlyRootFilesystem: true, and mount an emptyDir with a sizeLimit where the program writes",
    subject=CONTAINERS,
    check=_check,
)
