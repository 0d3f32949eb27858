"""Every emptyDir has a size limit."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.quantities import quantity


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for volume in pod.at("volumes").each():
        if volume.at("emptyDir").value is not None and not quantity(volume.at("emptyDir", "sizeLimit")):
            yield found(volume.at("emptyDir", "sizeLimit"), "is not set")


RULE = Rule(
    id="pod-require-empty-dir-limit",
    title="Every emptyDir has a size limit",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "add-emptydir-sizelimit",
    ),
    why="An emptyDir without a limit can fill the node's disk. In memory it counts against the container, which is then killed",
    remedy="set emptyDir.sizeLimit, for example 2Gi",
    subject=PODS,
    check=_check,
)
