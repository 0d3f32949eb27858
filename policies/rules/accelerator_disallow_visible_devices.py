"""The device plugin alone says which devices a container sees."""

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
            yield found(entry, "overrides what the device plugin allocates")


RULE = Rule(
    id="accelerator-disallow-visible-devices",
    title="The device plugin alone says which devices a container sees",
    severity=Severity.HIGH,
    refs=("inference",),
    why="A literal overrides the allocation, and two pods compute on the same card",
    remedy="remove the variable; only NVIDIA_VISIBLE_DEVICES=void or none, which hides devices, may stay",
    subject=CONTAINERS,
    check=_check,
)
