"""Volumes of models are kept when their claims are deleted."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(volume: Resource, _: Parameters) -> Findings:
    policy = volume.at("spec", "persistentVolumeReclaimPolicy")
    if policy.text() not in ("", "Retain"):
        yield found(policy, "is not Retain")


RULE = Rule(
    id="volume-require-retain",
    title="Volumes of models are kept when their claims are deleted",
    severity=Severity.HIGH,
    refs=("inference",),
    why="With another reclaim policy than Retain, deleting a claim deletes the weights",
    remedy="set persistentVolumeReclaimPolicy: Retain",
    subject=objects("kubernetes:core:PersistentVolume"),
    check=_check,
)
