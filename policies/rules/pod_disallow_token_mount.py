"""Pods carry no token for the Kubernetes API."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.rule import Edit, Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    if not pod.partial and pod.at("automountServiceAccountToken").flag() is not False:
        yield found(pod.at("automountServiceAccountToken"), "is not false")


def _remediate(pod: PodTemplate) -> Iterator[Edit]:
    yield Edit(pod.at("automountServiceAccountToken").keys, value=False)


RULE = Rule(
    id="pod-disallow-token-mount",
    title="Pods carry no token for the Kubernetes API",
    severity=Severity.MEDIUM,
    refs=(
        "CIS EKS 4.1.6",
        "NSA-CISA: service account tokens",
    ),
    why="Inference servers never call the API; a stolen token would",
    remedy="set automountServiceAccountToken: false",
    subject=PODS,
    check=_check,
    remediate=_remediate,
)
