"""Triton is recent enough."""

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
            yield found(place, f"is not release {given['release']} or newer")


RULE = Rule(
    id="model-require-triton-floor",
    title="Triton is recent enough",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "CVE-2026-24207",
    ),
    why="Older servers let requests bypass authentication (CVE-2026-24207, May 2026) or run a client's code (CVE-2025-23319)",
    remedy="use nvcr.io/nvidia/tritonserver release 26.06 or newer",
    subject=IMAGES,
    check=_check,
    parameters={
        "release": Parameter(default="26.06", description="Oldest release of Triton's container that is allowed", schema={"type": "string"})
    },
)
