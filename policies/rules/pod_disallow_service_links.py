"""Pods get no environment variables from Services."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.rule import Edit, Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    if not pod.partial and pod.at("enableServiceLinks").flag() is not False:
        yield found(pod.at("enableServiceLinks"), "is not false")


def _remediate(pod: PodTemplate) -> Iterator[Edit]:
    yield Edit(pod.at("enableServiceLinks").keys, value=False)


RULE = Rule(
    id="pod-disallow-service-links",
    title="Pods get no environment variables from Services",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "CIS EKS 4.5",
    ),
    why="A Service called vllm makes Kubernetes set VLLM_PORT, which vLLM rejects. Other variables tell the pod which Services exist",
    remedy="set enableServiceLinks: false",
    subject=PODS,
    check=_check,
    remediate=_remediate,
)
