"""Servers have enough time to load their declared model."""

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
                    yield found(probe, "is shorter than the time to load the declared model", urn=workload.urn)


def _declared(stack: Stack, workload: Resource, pod: PodTemplate) -> float | None:
    annotated = quantity(pod.metadata.at("annotations", SIZE_LABEL))
    parent = stack.by_urn(workload.parent)
    if annotated is not None or parent is None:
        return annotated
    return quantity(parent.at("spec", "weights", "size"))


RULE = StackRule(
    id="stack-require-startup-budget-for-model",
    title="Servers have enough time to load their declared model",
    severity=Severity.HIGH,
    refs=("inference",),
    why="If the startup probe ends before the model is loaded, Kubernetes restarts the server in a loop",
    remedy=(
        "raise startupProbe.failureThreshold x periodSeconds, or "
        "parameters.stack-require-startup-budget-for-model.bytesPerSecond if the store is faster"
    ),
    check=_check,
    parameters={
        "bytesPerSecond": Parameter(
            default=200e6,
            description="Minimum speed at which a server reads its weights, in bytes per second",
            schema={"type": "number", "minimum": 1},
        )
    },
)
