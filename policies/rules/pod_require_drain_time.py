"""Pods have enough time to shut down."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.timing import drain_of, grace_of


def _check(pod: PodTemplate, given: Parameters) -> Findings:
    for container in pod.servers:
        needed = drain_of(container)
        if needed and not pod.partial and grace_of(pod) < needed + given["marginSeconds"]:
            yield found(pod.at("terminationGracePeriodSeconds"), "is shorter than the containers' preStop and drain time")


RULE = Rule(
    id="pod-require-drain-time",
    title="Pods have enough time to shut down",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Kubernetes kills a pod when its grace period ends, which includes preStop. Answers that are still streaming are cut off",
    remedy="set terminationGracePeriodSeconds to the preStop sleep plus the server's drain time plus 5 seconds",
    subject=PODS,
    check=_check,
    parameters={
        "marginSeconds": Parameter(
            default=5,
            description="Seconds between the end of draining and the end of the grace period",
            schema={"type": "number", "minimum": 0},
        )
    },
)
