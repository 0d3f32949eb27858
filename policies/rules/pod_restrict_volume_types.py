"""Volumes are of the types that restricted pods may use."""

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
                yield found(field, "is a volume type that the restricted Pod Security Standard forbids")


RULE = Rule(
    id="pod-restrict-volume-types",
    title="Volumes are of the types that restricted pods may use",
    severity=Severity.HIGH,
    refs=("PSS restricted: Volume Types",),
    why=(
        "With an inline NFS or iSCSI volume, anyone who can create a pod can mount any share. An administrator creates each "
        "PersistentVolume"
    ),
    remedy="use configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected or secret",
    subject=PODS,
    check=_check,
)
