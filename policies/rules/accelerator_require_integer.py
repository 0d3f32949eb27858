"""Accelerator requests are whole numbers."""

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
    title="Accelerator requests are whole numbers",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Extended resources are counted in whole devices. Kubernetes rejects a fraction when it creates the pod",
    remedy="use a whole number; share a device with MIG or time-slicing on the node",
    subject=CONTAINERS,
    check=_check,
)
