"""Images are pinned by digest."""

from __future__ import annotations

from policies.engine.rule import Findings, Level, Parameters, Rule, Severity, found
from policies.subjects.images import image_of
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for container in pod.containers:
        if not image_of(container.at("image")).digest:
            yield found(container.at("image"), "has no digest")


RULE = Rule(
    id="image-require-digest",
    title="Images are pinned by digest",
    severity=Severity.MEDIUM,
    refs=(
        "CKV_K8S_43",
        "inference",
    ),
    why="A tag can be moved; a digest cannot",
    remedy="write the image as name:tag@sha256:<digest>",
    subject=PODS,
    check=_check,
    level=Level.DISABLED,
)
