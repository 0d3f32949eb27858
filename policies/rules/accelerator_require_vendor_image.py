"""Images fit the vendor of their accelerators."""

from __future__ import annotations

import re

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container

MARKS = re.compile(r"habana|gaudi|(^|[-_/.:])hpu([-_/.:]|$)", re.IGNORECASE)


def _check(container: Container, _: Parameters) -> Findings:
    vendors = {vendor for vendor, _side, _field in container.accelerators()}
    for_gaudi = bool(MARKS.search(container.at("image").text()))
    if vendors and for_gaudi != ("habana" in vendors):
        yield found(container.at("image"), "is built for accelerators of another vendor")


RULE = Rule(
    id="accelerator-require-vendor-image",
    title="Images fit the vendor of their accelerators",
    severity=Severity.HIGH,
    refs=("inference",),
    why="A CUDA image on Gaudi finds no device, and falls back to the CPU or dies, after minutes of pulling",
    remedy="take an image built for the pool's accelerator: vault.habana.ai or a name with gaudi or hpu for Gaudi, none of those for NVIDIA",
    subject=CONTAINERS,
    check=_check,
)
