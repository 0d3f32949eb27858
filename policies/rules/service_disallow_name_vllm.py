"""No Service is named vllm."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(service: Resource, _: Parameters) -> Findings:
    if service.at("metadata", "name").text() == "vllm":
        yield found(service.at("metadata", "name"), "is a name that breaks vLLM")


RULE = Rule(
    id="service-disallow-name-vllm",
    title="No Service is named vllm",
    severity=Severity.MEDIUM,
    refs=("inference",),
    why="Kubernetes would set VLLM_PORT=tcp://... in the pods of the namespace. vLLM reads it as its own port and exits",
    remedy="name the Service after its model",
    subject=objects("kubernetes:core:Service"),
    check=_check,
)
