"""A Ray cluster that waits in a queue has the shape that Kueue admits."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects
from policies.subjects.pods import RAY_CLUSTERS
from policies.subjects.queues import queue_of

MOST_GROUPS = 17


def _check(ray: Resource, _: Parameters) -> Findings:
    if not queue_of(ray).text():
        return
    cluster = ray.at(*RAY_CLUSTERS[ray.kind])
    scaling = cluster.at("enableInTreeAutoscaling")
    if scaling.flag():
        yield found(scaling, "is on in a queue")
    groups = list(cluster.at("workerGroupSpecs").each())
    if len(groups) > MOST_GROUPS:
        yield found(cluster.at("workerGroupSpecs"), f"has more than {MOST_GROUPS} groups")
    for group in groups:
        if group.at("groupName").text() == "head":
            yield found(group.at("groupName"), "is the name of the head")


RULE = Rule(
    id="ray-limit-queued-groups",
    title="A Ray cluster that waits in a queue has the shape that Kueue admits",
    severity=Severity.MEDIUM,
    refs=("inference", "Kueue: RayService"),
    why="Kueue refuses Ray's own autoscaler, more than seventeen worker groups and a group called head, when the object is made",
    remedy="turn enableInTreeAutoscaling off, join worker groups, rename the group; or take the queue's label away",
    subject=objects(*RAY_CLUSTERS),
    check=_check,
)
