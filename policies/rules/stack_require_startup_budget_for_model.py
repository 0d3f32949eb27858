"""Servers have time to load the model that they are declared with."""

from __future__ import annotations

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameter, Parameters, Severity, StackRule, found
from policies.subjects.engines import engines_of
from policies.subjects.pods import PodTemplate
from policies.subjects.quantities import quantity
from policies.subjects.timing import budget_of

SIZE_LABEL = "inferplan.dev/model-size"


def _check(stack: Stack, given: Parameters) -> Findings:
    for workload, pod in engines_of(stack):
        with stack.doubts:
            size = _declared(stack, workload, pod)
            for container in pod.servers:
                probe = container.at("startupProbe")
                if size and not probe.absent and budget_of(probe) < size / given["bytesPerSecond"]:
                    yield found(probe, "is shorter than loading the declared model takes", urn=workload.urn)


def _declared(stack: Stack, workload: Resource, pod: PodTemplate) -> float | None:
    annotated = quantity(pod.metadata.at("annotations", SIZE_LABEL))
    parent = stack.by_urn(workload.parent)
    if annotated is not None or parent is None:
        return annotated
    return quantity(parent.at("spec", "weights", "size"))


RULE = StackRule(
    id="stack-require-startup-budget-for-model",
    title="Servers have time to load the model that they are declared with",
    severity=Severity.HIGH,
    refs=("inference",),
    why="A budget below the time of loading kills the server in a loop, and only after it was rolled out",
    remedy="raise startupProbe.failureThreshold x periodSeconds, or parameters.stack-require-startup-budget-for-model.bytesPerSecond where the store is faster",
    check=_check,
    parameters={
        "bytesPerSecond": Parameter(
            default=200e6, description="How fast a server reads its weights, at the least", schema={"type": "number", "minimum": 1}
        )
    },
)
