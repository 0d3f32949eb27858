"""Volumes are of the types that restricted pods may have."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate

ALLOWED = frozenset(
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret", "hostPath"]
)


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for volume in pod.at("volumes").each():
        for kind, field in volume.entries():
            # hostPath has a rule of its own, which says more.
            if kind != "name" and kind not in ALLOWED and not field.absent:
                yield found(field, "is a volume type that restricted pods may not have")


RULE = Rule(
    id="pod-restrict-volume-types",
    title="Volumes are of the types that restricted pods may have",
    severity=Severity.HIGH,
    refs=("PSS restricted: Volume Types",),
    why="An inline NFS or iSCSI volume lets whoever writes a pod mount any share; a PersistentVolume is somebody's decision",
    remedy="use configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected or secret",
    subject=PODS,
    check=_check,
)
