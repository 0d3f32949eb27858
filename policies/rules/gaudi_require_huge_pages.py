"""Gaudi containers reserve huge pages."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.quantities import quantity


def _check(container: Container, _: Parameters) -> Findings:
    if any(vendor == "habana" for vendor, _side, _field in container.accelerators()):
        limit = container.at("resources", "limits", "hugepages-2Mi")
        request = container.at("resources", "requests", "hugepages-2Mi")
        if not quantity(limit):
            yield found(limit, "is not set, but the container requests Gaudi")
        elif not request.absent and quantity(request) != quantity(limit):
            yield found(request, "differs from the limit")


RULE = Rule(
    id="gaudi-require-huge-pages",
    title="Gaudi containers reserve huge pages",
    severity=Severity.HIGH,
    refs=("inference",),
    why="The Gaudi driver maps its buffers in 2 MiB pages. Without them, loading the model fails halfway",
    remedy="set resources.limits.hugepages-2Mi, and the same value under resources.requests",
    subject=CONTAINERS,
    check=_check,
)
