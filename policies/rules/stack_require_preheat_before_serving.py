"""Servers start after their preheat."""

from __future__ import annotations

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import claims_of, engines_of
from policies.subjects.pods import PODS, PodTemplate


def _check(stack: Stack, _: Parameters) -> Findings:
    writers: dict[tuple[str, str], set[str]] = {}
    for job in stack.of("kubernetes:batch:Job"):
        with stack.doubts:
            for pod in job.parts(PODS):
                for claim in _claims(job, pod, writing=True):
                    writers.setdefault(claim, set()).add(job.urn)
    for workload, pod in engines_of(stack):
        with stack.doubts:
            for claim in sorted(_claims(workload, pod, writing=False) & writers.keys()):
                if not writers[claim] & stack.behind(workload):
                    problem = "holds weights that a Job writes, but the server does not wait for the Job"
                    yield found(pod.at("volumes"), problem, urn=workload.urn)


def _claims(of: Resource, pod: PodTemplate, *, writing: bool) -> set[tuple[str, str]]:
    return {(of.at("metadata", "namespace").text(), name) for name in claims_of(pod, writing=writing)}


RULE = StackRule(
    id="stack-require-preheat-before-serving",
    title="Servers start after their preheat",
    severity=Severity.HIGH,
    refs=("inference",),
    why="A server that starts before the copy is complete reads an incomplete model or fails",
    remedy="make the Deployment depend on the Job that writes its weights (depends_on)",
    check=_check,
)
