"""No volume is a path on the node."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for volume in pod.at("volumes").each():
        if not volume.at("hostPath").absent:
            yield found(volume.at("hostPath"), "mounts a path on the node")


RULE = Rule(
    id="pod-disallow-host-path",
    title="No volume is a path on the node",
    severity=Severity.CRITICAL,
    refs=(
        "PSS baseline: HostPath Volumes",
        "CIS EKS 4.2.9",
    ),
    why="Such a path outlives the pod, and lets it read files of other pods and of the kubelet",
    remedy="use a PersistentVolumeClaim, or an emptyDir with a sizeLimit",
    subject=PODS,
    check=_check,
)
