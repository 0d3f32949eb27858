"""Queued workloads name an existing queue."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.pods import PODS
from policies.subjects.queues import local_queue, local_queues, queue_of


def _check(stack: Stack, _: Parameters) -> Findings:
    for each in stack.of(*sorted(PODS.kinds)):
        with stack.doubts:
            name, namespace = queue_of(each).text(), each.at("metadata", "namespace").text()
            if not name or local_queue(stack, namespace, name) is not None:
                continue
            # A stack that declares no queue in the namespace uses one that is there already.
            if any(True for _ in local_queues(stack, namespace)):
                yield found(queue_of(each), "is not a LocalQueue of the stack in that namespace", urn=each.urn)


RULE = StackRule(
    id="stack-require-known-queue",
    title="Queued workloads name an existing queue",
    severity=Severity.HIGH,
    refs=("inference", "Kueue: LocalQueue"),
    why="Kueue suspends a workload until its queue exists, and reports it only in a condition of the Workload",
    remedy="set the label kueue.x-k8s.io/queue-name to a LocalQueue of the same namespace, or declare that queue",
    check=_check,
)
