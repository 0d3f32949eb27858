"""What waits in a queue waits in one that is there."""

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
                yield found(queue_of(each), "is no LocalQueue of the stack in that namespace", urn=each.urn)


RULE = StackRule(
    id="stack-require-known-queue",
    title="What waits in a queue waits in one that is there",
    severity=Severity.HIGH,
    refs=("inference", "Kueue: LocalQueue"),
    why="Kueue holds an object back until its queue appears, and says so only in a condition of the Workload",
    remedy="name a LocalQueue of the same namespace in the label kueue.x-k8s.io/queue-name, or declare it",
    check=_check,
)
