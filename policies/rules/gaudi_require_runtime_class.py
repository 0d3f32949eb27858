"""Gaudi pods name their runtime class."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    if not pod.partial and "habana" in pod.demand and not pod.at("runtimeClassName").text():
        yield found(pod.at("runtimeClassName"), "is not set though the pod asks for Gaudi")


RULE = Rule(
    id="gaudi-require-runtime-class",
    title="Gaudi pods name their runtime class",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Where habana is not the node's default runtime, several cards cannot be had without it",
    remedy="set runtimeClassName: habana",
    subject=PODS,
    check=_check,
)
