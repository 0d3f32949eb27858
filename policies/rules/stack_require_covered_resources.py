"""A queue has quota for every resource that its pods request."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameter, Parameters, Severity, StackRule, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.queues import cluster_queue_of, covered, local_queue, queue_of


def _check(stack: Stack, given: Parameters) -> Findings:
    for each in stack.of(*sorted(PODS.kinds)):
        with stack.doubts:
            name = queue_of(each).text()
            local = local_queue(stack, each.at("metadata", "namespace").text(), name) if name else None
            queue = cluster_queue_of(stack, local) if local else None
            if queue is None:
                continue
            handed_out = set(covered(queue))
            for pod in each.parts(PODS):
                if any(not resource.startswith(tuple(given["excludedPrefixes"])) for resource in _asked(pod) - handed_out):
                    yield found(queue.at("spec", "resourceGroups"), "does not cover every resource that its pods request", urn=each.urn)


def _asked(pod: PodTemplate) -> set[str]:
    sides = ("requests", "limits")
    return {name for container in pod.containers for side in sides for name, _field in container.at("resources", side).entries()}


RULE = StackRule(
    id="stack-require-covered-resources",
    title="A queue has quota for every resource that its pods request",
    severity=Severity.HIGH,
    refs=("inference", "Kueue: ClusterQueue"),
    why="If no resource group covers one of the resources, Kueue never admits the pod",
    remedy="list cpu, memory, the accelerator and huge pages in coveredResources of the ClusterQueue",
    check=_check,
    parameters={
        "excludedPrefixes": Parameter(
            default=[],
            description="Name prefixes of resources that Kueue is configured to ignore",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
