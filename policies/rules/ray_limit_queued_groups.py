"""Queued Ray clusters have a shape that Kueue admits."""

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
        yield found(scaling, "is enabled in a queued cluster")
    groups = list(cluster.at("workerGroupSpecs").each())
    if len(groups) > MOST_GROUPS:
        yield found(cluster.at("workerGroupSpecs"), f"has more than {MOST_GROUPS} groups")
    for group in groups:
        if group.at("groupName").text() == "head":
            yield found(group.at("groupName"), "is reserved for the head")


RULE = Rule(
    id="ray-limit-queued-groups",
    title="Queued Ray clusters have a shape that Kueue admits",
    severity=Severity.MEDIUM,
    refs=("inference", "Kueue: RayService"),
    why="Kueue rejects Ray's own autoscaler, more than seventeen worker groups and a group named head",
    remedy="disable enableInTreeAutoscaling, merge worker groups or rename the group; or remove the queue's label",
    subject=objects(*RAY_CLUSTERS),
    check=_check,
)
