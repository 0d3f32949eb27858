"""Only the device plugin decides which devices a container sees."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container

NAMES = frozenset(
    ["HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "HL_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"]
)
HIDING = ("void", "none")


def _check(container: Container, _: Parameters) -> Findings:
    for name, entry in container.environment().items():
        if name in NAMES and entry.at("value").text() not in HIDING:
            yield found(entry, "overrides the allocation of the device plugin")


RULE = Rule(
    id="accelerator-disallow-visible-devices",
    title="Only the device plugin decides which devices a container sees",
    severity=Severity.HIGH,
    refs=("inference",),
    why="A literal value overrides the allocation, and two pods then use the same accelerator",
    remedy="remove the variable; only the values void and none, which hide all devices, are allowed",
    subject=CONTAINERS,
    check=_check,
)
