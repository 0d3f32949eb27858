"""The nodes of the stack have the capacity that its models request."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.claims import demand_of
from policies.subjects.engines import engines_of
from policies.subjects.placement import fits_on, grows_by_itself, nodes_of
from policies.subjects.workloads import copies_of, count_of


def _check(stack: Stack, _: Parameters) -> Findings:
    if grows_by_itself(stack):
        return
    nodes = list(nodes_of(stack))
    asked: dict[tuple[str, tuple[int, ...]], float] = {}
    for workload, pod in engines_of(stack):
        with stack.doubts:
            for vendor, cards in demand_of(stack, pod).items():
                fitting = tuple(place for place, node in enumerate(nodes) if node.accelerators.get(vendor) and fits_on(pod, node))
                if not fitting:
                    # Other stacks or people declare the other nodes. A separate rule checks selectors.
                    continue
                if all(nodes[place].accelerators[vendor] < cards for place in fitting):
                    yield found(pod.at("containers"), "requests more accelerators than any node has", urn=workload.urn)
                key = (vendor, fitting)
                asked[key] = asked.get(key, 0) + cards * copies_of(pod)
                if asked[key] > sum(nodes[place].accelerators[vendor] for place in fitting):
                    yield found(count_of(pod), "requests more accelerators than the pool has left", urn=workload.urn)


RULE = StackRule(
    id="stack-require-pool-capacity",
    title="The nodes of the stack have the capacity that its models request",
    severity=Severity.HIGH,
    refs=("inference",),
    why="A pod that does not fit stays Pending while everything else is paid for",
    remedy="lower replicas or accelerators per replica, or add nodes to the pool",
    check=_check,
)
