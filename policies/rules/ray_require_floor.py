"""Ray is new enough to ask for a token."""

from __future__ import annotations

import re

from policies.engine.fields import Field
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.images import at_least, image_of
from policies.subjects.pods import IMAGES

VERSION = re.compile(r"([0-9]+\.[0-9]+(?:\.[0-9]+)?)")


def _check(place: Field, given: Parameters) -> Findings:
    image = image_of(place)
    if "rayproject/" in image.name or image.base == "ray" or image.base.startswith("ray-"):
        match = VERSION.match(image.tag)
        if match is None or not at_least(match.group(1), given["version"]):
            yield found(place, f"is not Ray {given['version']} or newer")


RULE = Rule(
    id="ray-require-floor",
    title="Ray is new enough to ask for a token",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "CVE-2023-48022",
    ),
    why="Before 2.52 whoever reaches Ray's ports runs code on the cluster",
    remedy="take an image of Ray 2.52 or newer whose tag names the version, as rayproject/ray:2.60.0",
    subject=IMAGES,
    check=_check,
    parameters={"version": Parameter(default="2.52", description="The oldest Ray that may run", schema={"type": "string"})},
)
