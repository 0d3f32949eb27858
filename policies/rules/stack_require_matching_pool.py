"""Selectors and tolerations match a pool of the stack."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.claims import demand_of
from policies.subjects.engines import engines_of
from policies.subjects.placement import fits_on, grows_by_itself, nodes_of


def _check(stack: Stack, _: Parameters) -> Findings:
    if grows_by_itself(stack):
        return
    nodes = list(nodes_of(stack))
    for workload, pod in engines_of(stack):
        with stack.doubts:
            for vendor in demand_of(stack, pod):
                declared = [node for node in nodes if node.accelerators.get(vendor)]
                # A stack that declares no node with that accelerator runs on nodes that exist already.
                if declared and not any(fits_on(pod, node) for node in declared):
                    yield found(pod.at("nodeSelector"), "matches no node of the stack with that accelerator", urn=workload.urn)


RULE = StackRule(
    id="stack-require-matching-pool",
    title="Selectors and tolerations match a pool of the stack",
    severity=Severity.HIGH,
    refs=("inference",),
    why="A pod with a misspelled pool stays Pending",
    remedy="set nodeSelector and tolerations to those of a pool with that accelerator",
    check=_check,
)
