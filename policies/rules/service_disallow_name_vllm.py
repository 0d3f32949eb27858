"""No Service is called vllm."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(service: Resource, _: Parameters) -> Findings:
    if service.at("metadata", "name").text() == "vllm":
        yield found(service.at("metadata", "name"), "is the name that breaks vLLM")


RULE = Rule(
    id="service-disallow-name-vllm",
    title="No Service is called vllm",
    severity=Severity.MEDIUM,
    refs=("inference",),
    why="Kubernetes gives its neighbours VLLM_PORT=tcp://..., which vLLM takes for its own port and refuses",
    remedy="give the Service the name of its model",
    subject=objects("kubernetes:core:Service"),
    check=_check,
)
