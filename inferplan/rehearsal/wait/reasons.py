"""Why the API server rejects an object, and why one is not ready, from the component that blocks
it: the nearest cause.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

from inferplan.errors import ObjectFailed
from inferplan.kube.api import ApiError, UnknownKindError
from inferplan.kube.names import KUEUE_API, QUEUE_LABEL
from inferplan.kube.objects import condition
from inferplan.kube.pod_causes import pods_cause
from inferplan.rehearsal.wait.watching import Watching

Object = dict[str, Any]
_WORKLOADS = (
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "ReplicaSet",
    "Pod",
    "LeaderWorkerSet",
    "RayService",
)
_IMMUTABLE = re.compile(
    r"immutable|may not (change|be changed|be updated)|updates to .* are forbidden|once set"
    r"|forbidden after creation|cannot change roleRef|cannot update non-convertible"
)
# Objects between a workload and its pods.
_BETWEEN = {
    "Deployment": "ReplicaSet",
    "LeaderWorkerSet": "StatefulSet",
    "DynamoGraphDeployment": "Deployment",
}


def is_immutable(error: ApiError) -> bool:
    """True if the API server rejects a change that it would accept in a new object. A test asks it
    about every field of every kind.
    """
    return error.status == HTTPStatus.UNPROCESSABLE_ENTITY and bool(
        _IMMUTABLE.search(error.message)
    )


def immutable_fields(error: ApiError) -> str:
    """The immutable fields with the server's reasons, without the values that it quotes."""
    causes = error.details.get("causes") or ()
    # A cause is `Invalid value: {...}: field is immutable`; the part after the last colon quotes no
    # value.
    fields = dict.fromkeys(
        f"{each.get('field', '')}: {str(each.get('message', '')).rpartition(': ')[2]}"
        for each in causes
    )
    return (
        f"the API server does not update it in place: {', '.join(fields) or 'a field is immutable'}"
    )


def rejection(error: ApiError) -> ObjectFailed:
    if error.reason == "Conflict":
        return ObjectFailed(
            f"another field manager owns a declared field: {error.message}",
            'omit the field, or take it over with the annotation pulumi.com/patchForce: "true"',
        )
    if error.status == 0:
        return ObjectFailed(
            error.message, "run the same command again: it repairs the cluster and continues"
        )
    if error.reason == "Forbidden" and "exceeded quota" in error.message:
        return ObjectFailed(error.message, "request less, or raise the quota")
    if "failed calling webhook" in error.message:
        return ObjectFailed(
            error.message,
            "check that the webhook's server runs; without its answer the API server rejects all"
            " objects of this kind",
        )
    return ObjectFailed(
        f"the API server rejects it ({error.status} {error.reason}): {error.message}",
        "correct the declaration",
    )


def observe_for(watching: Watching, live: Object) -> None:
    """Watch the kinds that `why` needs for `live`."""
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


def why(watching: Watching, live: Object) -> tuple[str, bool]:
    """The reason in one sentence, "" if there is none yet, and True if no node fits a pod of
    `live`, or a quota rejects its pods.
    """
    owners = chain(watching, live)
    pods = [
        pod for pod in pods_of(watching, live) if condition(pod, "Ready").get("status") != "True"
    ]
    stuck = any(_rejection_of_pods(owner) for owner in owners)
    stuck = stuck or any(
        condition(pod, "PodScheduled").get("reason") == "Unschedulable" for pod in pods
    )
    return next(filter(None, _reasons(watching, owners, pods)), ""), stuck


def explained(watching: Watching, live: Object, state: str) -> tuple[str, bool]:
    """`state` with the reason that `why` returns, and its second value."""
    cause, is_stuck = why(watching, live)
    return f"{state}: {cause}" if cause and cause not in state else state, is_stuck


def pods_of(watching: Watching, live: Object) -> list[Object]:
    """The pods of `live`, which may be one."""
    if live["kind"] == "Pod":
        return [live]
    return [
        pod
        for owner in chain(watching, live)
        for pod in watching.owned("Pod", owner["metadata"]["uid"])
    ]


def _reasons(watching: Watching, owners: Iterable[Object], pods: Iterable[Object]) -> Iterator[str]:
    """Reasons, the nearest first: the pods' own states, then their owners', then events."""
    owners, pods = list(owners), list(pods)
    yield pods_cause(pods)
    for owner in owners:
        yield str(_rejection_of_pods(owner).get("message", ""))
        yield _queue_reason(watching, owner)
    for pod in pods:
        if reason := _pod_reason(watching, pod):
            yield f"pod {pod['metadata']['name']}: {reason}"
    newest = max((str(each["metadata"].get("creationTimestamp", "")) for each in pods), default="")
    for owner in owners:
        # An event before the newest pod tells why an earlier one was late.
        yield _warning(watching, owner, since=newest)


def _rejection_of_pods(owner: Object) -> Object:
    failure = condition(owner, "ReplicaFailure")
    return failure if failure.get("status") == "True" else {}


def chain(watching: Watching, live: Object) -> list[Object]:
    """`live` and the objects between it and its pods."""
    between = _BETWEEN.get(live["kind"])
    owned = watching.owned(between, live["metadata"]["uid"]) if between else ()
    return [live, *(each for child in owned for each in chain(watching, child))]


def _queue_reason(watching: Watching, live: Object) -> str:
    for workload in watching.owned("Workload", live["metadata"]["uid"]):
        reserved = condition(workload, "QuotaReserved")
        if reserved.get("status") == "False" and reserved.get("message"):
            return f"queue {workload['spec'].get('queueName', '')}: {reserved['message']}"
    return ""


def _pod_reason(watching: Watching, pod: Object) -> str:
    if reason := _queue_reason(watching, pod):
        return reason
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        message = str(scheduled.get("message") or scheduled.get("reason", ""))
        if "unschedulable" not in message:
            return message
        cordoned = [
            each for each in watching.known("Node") if (each.get("spec") or {}).get("unschedulable")
        ]
        names = " ".join(sorted(each["metadata"]["name"] for each in cordoned))
        return (
            f"{message} Cordoned: {names}; allow pods there with: kubectl uncordon {names}"
            if names
            else message
        )
    return _warning(watching, pod)


def _warning(watching: Watching, live: Object, *, since: str = "") -> str:
    """The message of the latest event, not older than `since`, that explains why `live` makes no
    progress.
    """
    events = [
        each
        for each in watching.owned("Event", live["metadata"]["uid"])
        if (each.get("type") == "Warning" or _blocks(each)) and _time(each) >= since
    ]
    if not events:
        return ""
    latest = max(events, key=lambda each: int(each["metadata"]["resourceVersion"]))
    return str(latest.get("message", ""))


def _blocks(event: Object) -> bool:
    # These have type Normal although the object waits for someone to act.
    return event.get("reason") in ("FailedBinding", "WaitForFirstConsumer", "WaitForPodScheduled")


def _time(event: Object) -> str:
    """The last occurrence of `event` to the second, in the form of creationTimestamp."""
    text = event.get("lastTimestamp") or event.get("eventTime") or ""
    return f"{text or event['metadata'].get('creationTimestamp', '')}"[:19] + "Z"
