"""Accelerators are whole."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.quantities import quantity


def _check(container: Container, _: Parameters) -> Findings:
    for _vendor, _side, field in container.accelerators():
        count = quantity(field) or 0
        if count != int(count):
            yield found(field, "is not a whole number")


RULE = Rule(
    id="accelerator-require-integer",
    title="Accelerators are whole",
    severity=Severity.HIGH,
    refs=("inference",),
    why="An extended resource is counted in whole devices; a fraction is refused when the pod is created",
    remedy="write a whole number; share a device by MIG or time-slicing on the node",
    subject=CONTAINERS,
    check=_check,
)
