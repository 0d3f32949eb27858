"""Ray is recent enough to require a token."""

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
    title="Ray is recent enough to require a token",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "CVE-2023-48022",
    ),
    why="Before 2.52, anyone who can reach Ray's ports can run code on the cluster",
    remedy="use an image of Ray 2.52 or newer with the version in its tag, for example rayproject/ray:2.60.0",
    subject=IMAGES,
    check=_check,
    parameters={"version": Parameter(default="2.52", description="Oldest version of Ray that is allowed", schema={"type": "string"})},
)
