"""/proc stays masked."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container


def _check(container: Container, _: Parameters) -> Findings:
    field = container.at("securityContext", "procMount")
    if field.text() not in ("", "Default"):
        yield found(field, "is not Default")


RULE = Rule(
    id="pod-disallow-unmasked-proc",
    title="/proc stays masked",
    severity=Severity.HIGH,
    refs=("PSS baseline: /proc Mount Type",),
    why="An unmasked /proc lets a container read and change settings of the node",
    remedy="remove securityContext.procMount",
    subject=CONTAINERS,
    check=_check,
)
