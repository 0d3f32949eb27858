"""Autoscalers that have not set the replicas of their workload yet."""

from typing import Final

from inferplan.kube.objects import condition
from inferplan.kube.paths import mapping
from inferplan.rehearsal.wait.object_events import Key
from inferplan.rehearsal.wait.watching import Watching

_KIND: Final = "HorizontalPodAutoscaler"


def is_unscaled(watching: Watching) -> bool:
    """True if an autoscaler will change the replicas of a workload, since they are outside its
    range; it leaves a workload without replicas alone.
    """
    for each in watching.known(_KIND):
        spec, target = each["spec"], each["spec"]["scaleTargetRef"]
        workload = watching.get(Key(target["kind"], each["metadata"]["namespace"], target["name"]))
        replicas = mapping(workload, "spec").get("replicas")
        inside = spec.get("minReplicas", 1) <= (replicas or 0) <= spec["maxReplicas"]
        if replicas and not inside and condition(each, "AbleToScale").get("status") != "False":
            return True
    return False
