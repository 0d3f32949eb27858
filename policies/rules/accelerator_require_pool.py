"""Pods with accelerators select their pool."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    affinity = pod.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if pod.demand and not pod.at("nodeSelector").value and not affinity.value:
        yield found(pod.at("nodeSelector"), "is not set, but the pod requests accelerators")


RULE = Rule(
    id="accelerator-require-pool",
    title="Pods with accelerators select their pool",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Without a selector the scheduler can pick any node that offers the resource, for example an L4 instead of an H100",
    remedy="set nodeSelector or node affinity to the labels of the pool",
    subject=PODS,
    check=_check,
)
