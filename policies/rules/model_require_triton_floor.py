"""Triton is new enough."""

from __future__ import annotations

import re

from policies.engine.fields import Field
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.images import at_least, image_of
from policies.subjects.pods import IMAGES

RELEASE = re.compile(r"([0-9][0-9]\.[0-9][0-9])(?:-|$)")


def _check(place: Field, given: Parameters) -> Findings:
    image = image_of(place)
    if "tritonserver" in image.name:
        match = RELEASE.match(image.tag)
        if match is None or not at_least(match.group(1), given["release"]):
            yield found(place, f"is not of release {given['release']} or newer")


RULE = Rule(
    id="model-require-triton-floor",
    title="Triton is new enough",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "CVE-2026-24207",
    ),
    why="Older servers let requests past their authentication (CVE-2026-24207, May 2026) or run a caller's code (CVE-2025-23319)",
    remedy="take nvcr.io/nvidia/tritonserver of release 26.06 or newer",
    subject=IMAGES,
    check=_check,
    parameters={
        "release": Parameter(
            default="26.06", description="The oldest release of Triton's container that may serve", schema={"type": "string"}
        )
    },
)
