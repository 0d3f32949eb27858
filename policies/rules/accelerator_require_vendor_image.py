"""Images match the vendor of the pod's accelerators."""

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
    title="Images match the vendor of the pod's accelerators",
    severity=Severity.HIGH,
    refs=("inference",),
    why="A CUDA image on Gaudi finds no device. After minutes of pulling it uses the CPU or exits",
    remedy=(
        "use an image for the pool's accelerator: from vault.habana.ai or with gaudi or hpu in its name for Gaudi, any other for NVIDIA"
    ),
    subject=CONTAINERS,
    check=_check,
)
