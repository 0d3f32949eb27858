"""Pods are given the time that their shutdown takes."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.timing import drain_of, grace_of


def _check(pod: PodTemplate, given: Parameters) -> Findings:
    for container in pod.servers:
        needed = drain_of(container)
        if needed and not pod.partial and grace_of(pod) < needed + given["marginSeconds"]:
            yield found(pod.at("terminationGracePeriodSeconds"), "ends before the containers' preStop and drain")


RULE = Rule(
    id="pod-require-drain-time",
    title="Pods are given the time that their shutdown takes",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Kubernetes kills a pod when its grace ends, preStop included; answers that stream would be cut",
    remedy="set terminationGracePeriodSeconds to the preStop sleep and the server's own drain time together and 5 seconds more",
    subject=PODS,
    check=_check,
    parameters={
        "marginSeconds": Parameter(
            default=5, description="Seconds between the end of draining and the end of the grace", schema={"type": "number", "minimum": 0}
        )
    },
)
