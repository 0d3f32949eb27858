"""A rollout has the accelerators that it needs."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.claims import demand_of
from policies.subjects.engines import engines_of
from policies.subjects.kserve import INFERENCE_SERVICE
from policies.subjects.placement import fits_on, grows_by_itself, nodes_of
from policies.subjects.workloads import GROUPS, copies_of, group_size_of, rollout_of, strategy_of


def _check(stack: Stack, _: Parameters) -> Findings:
    if grows_by_itself(stack):
        return
    nodes = list(nodes_of(stack))
    engines = list(engines_of(stack))
    for workload, pod in engines:
        if workload.kind in GROUPS and workload.kind != INFERENCE_SERVICE:
            # Their operators roll them by rules of their own, which a field of the object does not tell.
            continue
        with stack.doubts:
            if pod.partial or group_size_of(pod) > 1:
                continue
            surge, unavailable = rollout_of(pod)
            if surge == 0 or unavailable > 0:
                continue
            for vendor, cards in demand_of(stack, pod).items():
                spare = sum(node.accelerators.get(vendor, 0) for node in nodes if fits_on(pod, node))
                for _other, its in engines:
                    # The use of a workload that cannot be read is unknown, so it frees no room.
                    with stack.doubts:
                        if any(fits_on(its, node) and fits_on(pod, node) for node in nodes):
                            spare -= demand_of(stack, its).get(vendor, 0) * copies_of(its)
                if spare < cards * surge:
                    place = strategy_of(pod).at("rollingUpdate", "maxSurge")
                    known = "the stack's nodes do not have" if nodes else "no node of the stack is known to have"
                    yield found(place, f"needs accelerators that {known} to spare", urn=workload.urn)


RULE = StackRule(
    id="stack-require-room-for-rollout",
    title="A rollout has the accelerators that it needs",
    severity=Severity.HIGH,
    refs=("inference",),
    why="With surge on a full pool, the new pod waits for an accelerator that the old pod keeps",
    remedy="set maxSurge: 0 with maxUnavailable: 1, or Recreate, or add spare nodes to the pool",
    check=_check,
)
