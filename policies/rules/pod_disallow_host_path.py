"""No volume is a path of the node."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for volume in pod.at("volumes").each():
        if not volume.at("hostPath").absent:
            yield found(volume.at("hostPath"), "mounts a path of the node")


RULE = Rule(
    id="pod-disallow-host-path",
    title="No volume is a path of the node",
    severity=Severity.CRITICAL,
    refs=(
        "PSS baseline: HostPath Volumes",
        "CIS EKS 4.2.9",
    ),
    why="A path of the node outlives the pod, and lets it read what other pods and the kubelet keep there",
    remedy="use a PersistentVolumeClaim or an emptyDir with a sizeLimit",
    subject=PODS,
    check=_check,
)
