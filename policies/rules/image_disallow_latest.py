"""Images name their version."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.images import image_of
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for container in pod.containers:
        image = image_of(container.at("image"))
        if not image.digest and image.tag in ("", "latest"):
            yield found(container.at("image"), "names no version")


RULE = Rule(
    id="image-disallow-latest",
    title="Images name their version",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 5",
        "CKV_K8S_14",
        "inference",
    ),
    why="The tag latest, or none, is another server tomorrow, and two replicas may run different ones",
    remedy="name a version's tag, better with its digest",
    subject=PODS,
    check=_check,
)
