"""No PersistentVolume is a path of whatever node a pod lands on."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(volume: Resource, _: Parameters) -> Findings:
    if not volume.at("spec", "hostPath").absent:
        yield found(volume.at("spec", "hostPath"), "is a path of the node")


RULE = Rule(
    id="volume-disallow-host-path",
    title="No PersistentVolume is a path of whatever node a pod lands on",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 4.2.9",
        "NSA-CISA: hostPath volumes",
    ),
    why="Through a claim any restricted pod mounts the node's files, past the profile that forbids hostPath; another node holds other weights",
    remedy="use csi or nfs, or spec.local with a nodeAffinity for a disk of one node",
    subject=objects("kubernetes:core:PersistentVolume"),
    check=_check,
)
