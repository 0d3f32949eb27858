"""Containers cannot write to their image."""

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
    title="Containers cannot write to their image",
    severity=Severity.MEDIUM,
    refs=(
        "CIS EKS 4.2",
        "NSA-CISA: immutable container file systems",
    ),
    why=(
        "What cannot be written cannot be replaced by an attacker, nor fill the node's disk unseen; "
        "containers with NVIDIA cards are left out, since NVIDIA's own hook writes into their root"
    ),
    remedy="set securityContext.readOnlyRootFilesystem: true and mount an emptyDir with a sizeLimit where the program writes",
    subject=CONTAINERS,
    check=_check,
)
