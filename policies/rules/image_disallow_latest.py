"""Images name their version."""

from __future__ import annotations

import re
from typing import Final

from policies.engine.fields import Field
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.images import image_of
from policies.subjects.pods import IMAGES

# Intel's registry names versions in the path, and publishes the one tag latest below it (docs.habana.ai, Docker installation, read 2026-11).
_VERSION_IN_PATH: Final = re.compile(r"vault\.habana\.ai/gaudi-docker/[0-9]+\.[0-9]+\.[0-9]+/.+-[0-9]+\.[0-9]+\.[0-9]+\Z")


def _check(place: Field, _: Parameters) -> Findings:
    image = image_of(place)
    if not image.digest and image.tag in ("", "latest") and not (image.tag and _VERSION_IN_PATH.match(image.name)):
        yield found(place, "names no version")


RULE = Rule(
    id="image-disallow-latest",
    title="Images name their version",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 5",
        "CKV_K8S_14",
        "inference",
    ),
    why="The tag latest, or no tag, changes without notice, and two replicas can run different versions",
    remedy="use name:<version> or name:<version>@sha256:<digest>",
    subject=IMAGES,
    check=_check,
)
