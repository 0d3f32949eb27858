"""Why an object is not ready, in the words of whoever holds it up: the scheduler, a quota, a queue, a volume, a container.

It reads the live copy only and changes nothing; of several reasons it gives the one nearest to the cause.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from kube.names import KUEUE_API, QUEUE_LABEL
from rehearsal.cluster.api import UnknownKindError
from rehearsal.engine.wait.readiness import condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rehearsal.engine.wait.watching import Watching

Object = dict[str, Any]
_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet", "Pod", "LeaderWorkerSet", "RayService")
# What stands between an object and its pods.
_BETWEEN = {"Deployment": "ReplicaSet", "LeaderWorkerSet": "StatefulSet"}


def observe_for(watching: Watching, live: Object) -> None:
    """Begin to follow what `why` needs for `live`."""
    kind = live["kind"]
    watching.observe("v1", "Event")
    if QUEUE_LABEL in (live["metadata"].get("labels") or {}):
        # A cluster without Kueue ignores the label.
        with contextlib.suppress(UnknownKindError):
            watching.observe(KUEUE_API, "Workload")
    if kind in _WORKLOADS:
        watching.observe("v1", "Pod")
    if kind in _BETWEEN:
        watching.observe("apps/v1", _BETWEEN[kind])


def why(watching: Watching, live: Object) -> str:
    """The reason in one sentence, "" when nobody has said anything yet."""
    for owner in _chain(watching, live):
        refusal = condition(owner, "ReplicaFailure")
        if refusal.get("status") == "True":
            return str(refusal.get("message", ""))
        told = _queue_reason(watching, owner) or _warning(watching, owner)
        if told:
            return told
    pods = _pods(watching, live)
    if said := last_words(pods):
        return said
    for pod in pods:
        told = _pod_reason(watching, pod)
        if told:
            return f"pod {pod['metadata']['name']}: {told}"
    return ""


def fits_nowhere(watching: Watching, live: Object) -> bool:
    """Whether the scheduler found no node for a pod of `live`, or a quota let it have none."""
    if any(condition(owner, "ReplicaFailure").get("status") == "True" for owner in _chain(watching, live)):
        return True
    return any(condition(pod, "PodScheduled").get("reason") == "Unschedulable" for pod in _pods(watching, live))


def last_words(pods: Iterable[Object]) -> str:
    """What the newest of `pods` with a container that ended badly was told to say about it; "" when none left a message."""
    for pod in sorted(pods, key=lambda each: str(each["metadata"].get("creationTimestamp", "")), reverse=True):
        status = pod.get("status") or {}
        for each in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
            state = each.get("state") or {}
            # A container that waits to be started again keeps its last end beside it.
            ended = state.get("terminated") or ("waiting" in state and (each.get("lastState") or {}).get("terminated")) or {}
            lines = str(ended.get("message") or "").strip().splitlines()
            if ended.get("exitCode") and lines:
                return f"pod {pod['metadata']['name']}: container {each['name']} ended with exit code {ended['exitCode']}: {lines[-1]}"
    return ""


def _chain(watching: Watching, live: Object) -> list[Object]:
    between = _BETWEEN.get(live["kind"])
    return [live, *(watching.owned(between, live["metadata"]["uid"]) if between else ())]


def _pods(watching: Watching, live: Object) -> list[Object]:
    if live["kind"] == "Pod":
        return [live]
    owners = [each["metadata"]["uid"] for each in _chain(watching, live)]
    return [pod for uid in owners for pod in watching.owned("Pod", uid) if condition(pod, "Ready").get("status") != "True"]


def _queue_reason(watching: Watching, live: Object) -> str:
    """Why Kueue does not admit `live` yet, in its own words."""
    for workload in watching.owned("Workload", live["metadata"]["uid"]):
        reserved = condition(workload, "QuotaReserved")
        if reserved.get("status") == "False" and reserved.get("message"):
            return f"queue {workload['spec'].get('queueName', '')}: {reserved['message']}"
    return ""


def _pod_reason(watching: Watching, pod: Object) -> str:
    if told := _queue_reason(watching, pod):
        return told
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason", ""))
    status = pod.get("status") or {}
    for each in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        state = each.get("state") or {}
        held = state.get("waiting") or state.get("terminated") or {}
        if held.get("reason") and held["reason"] not in ("ContainerCreating", "PodInitializing", "Completed"):
            return f"container {each['name']}: {held['reason']}" + (f": {held['message']}" if held.get("message") else "")
    return _warning(watching, pod)


def _warning(watching: Watching, live: Object) -> str:
    """The latest thing that was said about `live` and holds it up."""
    told = [each for each in watching.owned("Event", live["metadata"]["uid"]) if each.get("type") == "Warning" or _holds_up(each)]
    if not told:
        return ""
    latest = max(told, key=lambda each: int(each["metadata"]["resourceVersion"]))
    return str(latest.get("message", ""))


def _holds_up(event: Object) -> bool:
    # Reported as type Normal, although nothing goes on until it is dealt with.
    return event.get("reason") in ("FailedBinding", "WaitForFirstConsumer", "WaitForPodScheduled")
