"""No PersistentVolume is a path on whichever node the pod runs."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(volume: Resource, _: Parameters) -> Findings:
    if not volume.at("spec", "hostPath").absent:
        yield found(volume.at("spec", "hostPath"), "is a path on the node")


RULE = Rule(
    id="volume-disallow-host-path",
    title="No PersistentVolume is a path on whichever node the pod runs",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 4.2.9",
        "NSA-CISA: hostPath volumes",
    ),
    why=(
        "Through a claim, a restricted pod could mount files of the node although hostPath is forbidden. Another node also "
        "holds other weights"
    ),
    remedy="use csi or nfs, or spec.local with a nodeAffinity for the disk of one node",
    subject=objects("kubernetes:core:PersistentVolume"),
    check=_check,
)
