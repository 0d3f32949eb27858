"""Gaudi pods set their runtime class."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    if not pod.partial and "habana" in pod.demand and not pod.at("runtimeClassName").text():
        yield found(pod.at("runtimeClassName"), "is not set, but the pod requests Gaudi")


RULE = Rule(
    id="gaudi-require-runtime-class",
    title="Gaudi pods set their runtime class",
    severity=Severity.HIGH,
    refs=("inference",),
    why="If habana is not the node's default runtime, a pod without it cannot use several accelerators",
    remedy="set runtimeClassName: habana",
    subject=PODS,
    check=_check,
)
