"""Jobs have a deadline."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(job: Resource, _: Parameters) -> Findings:
    spec = job.at("spec") if job.short_kind == "Job" else job.at("spec", "jobTemplate", "spec")
    if not spec.at("activeDeadlineSeconds").number():
        yield found(spec.at("activeDeadlineSeconds"), "is not set")


RULE = Rule(
    id="job-require-end",
    title="Jobs have a deadline",
    severity=Severity.MEDIUM,
    refs=("inference",),
    why="A Job without a deadline can wait for a volume that hangs, and the update waits for the Job",
    remedy="set spec.activeDeadlineSeconds, for example 3600",
    subject=objects("kubernetes:batch:Job", "kubernetes:batch:CronJob"),
    check=_check,
)
