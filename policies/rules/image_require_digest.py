"""Images are pinned by digest."""

from __future__ import annotations

from policies.engine.fields import Field
from policies.engine.rule import Findings, Level, Parameters, Rule, Severity, found
from policies.subjects.images import image_of
from policies.subjects.pods import IMAGES


def _check(place: Field, _: Parameters) -> Findings:
    if not image_of(place).digest:
        yield found(place, "has no digest")


RULE = Rule(
    id="image-require-digest",
    title="Images are pinned by digest",
    severity=Severity.MEDIUM,
    refs=(
        "CKV_K8S_43",
        "inference",
    ),
    why="A tag can be moved to another image, a digest cannot",
    remedy="use name:tag@sha256:<digest>",
    subject=IMAGES,
    check=_check,
    level=Level.DISABLED,
)
