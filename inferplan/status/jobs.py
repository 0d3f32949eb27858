"""The state of preheats, engine builds, the benchmark and Kueue's queues, from Jobs and pods. It
never reads the share itself.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inferplan.components.preheat.spec import artifact_job
from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL, KUEUE_API
from inferplan.kube.objects import condition, label
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.live import Get

_STATES = {"ready": "complete", "copying": "running"}
_ABSENT = "not applied yet"


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """An engine build or the benchmark: complete, running, waiting, failed, collected (its Job is
    gone) or not applied yet.
    """

    name: str
    kind: str
    state: str
    message: str


@dataclass(frozen=True, kw_only=True)
class QueueRow:
    name: str
    pools: tuple[str, ...]
    admitted: int
    pending: int
    state: str
    message: str


def job_rows(
    settings: StackSettings,
    jobs: Iterable[Any],
    pods: Iterable[Any],
    *,
    served: Collection[str],
    messages: Mapping[tuple[str, str], str],
) -> Iterable[JobRow]:
    builds = {name: name in served for name, spec in settings.models.items() if spec.builds_engines}
    names = {("engine-build", name): collected for name, collected in builds.items()}
    if settings.benchmark is not None:
        names["benchmark", "benchmark"] = False
    for (component, name), collected in names.items():
        mine = [
            job
            for job in jobs
            if label(job, COMPONENT_LABEL) == component and label(job, INSTANCE_LABEL) == name
        ]
        kind = component.replace("-", " ")
        if not mine:
            yield JobRow(
                name=name, kind=kind, state="collected" if collected else _ABSENT, message=""
            )
            continue
        job = newest(mine)
        state, message = job_state(job, pods_of(job, pods), lambda _pod: "", container=None)
        if job.get("spec", {}).get("suspend"):
            reason = messages.get(("Job", job["metadata"]["name"]), "its share of the quota")
            state, message = "waiting", f"waits in a queue: {reason}"
        yield JobRow(name=name, kind=kind, state=_STATES.get(state, state), message=message)


def queue_rows(settings: StackSettings, get: Get) -> Iterable[QueueRow]:
    objects = {
        each["metadata"]["name"]: each for each in kueue_objects(settings, get, "localqueues")
    }
    for name, spec in settings.queues.items():
        queue = objects.get(name, {})
        status, active = queue.get("status", {}), condition(queue, "Active")
        state = (
            {"True": "active", "False": "not active"}.get(
                active.get("status", ""), "not seen by Kueue"
            )
            if queue
            else _ABSENT
        )
        yield QueueRow(
            name=name,
            pools=tuple(spec.pools),
            admitted=status.get("admittedWorkloads", 0),
            pending=status.get("pendingWorkloads", 0),
            state=state,
            message="" if state == "active" else active.get("message", ""),
        )


def kueue_objects(settings: StackSettings, get: Get, plural: str) -> list[Any]:
    """Kueue's objects in the namespace of the stack; none without queues or without Kueue."""
    group = KUEUE_API.partition("/")[0]
    if not settings.queues or all(each["name"] != group for each in get("/apis").get("groups", [])):
        return []
    return get(f"/apis/{KUEUE_API}/namespaces/{settings.namespace}/{plural}").get("items", [])


PreheatState = Literal["ready", "copying", "waiting", "failed", "collected", "not applied yet"]
LastLine = Callable[[str], str]
"""The newest line of a pod's log, by the pod's name; "" if there is none."""

_COMPONENT = "preheat"
_ROUND = re.compile(r'"directory": "[^"]*-r([0-9]+)"')
_DONE = ("ready", "collected")


@dataclass(frozen=True, kw_only=True)
class PreheatRow:
    """The files of one model or of one of its artifacts: the round, its state, and the message of
    its Job.
    """

    name: str
    share: str
    round: int
    state: PreheatState
    detail: str

    @property
    def done(self) -> bool:
        return self.state in _DONE


def preheats(
    settings: StackSettings,
    jobs: Iterable[Any],
    pods: Iterable[Any],
    *,
    served: Collection[str],
    last_line: LastLine,
) -> Iterable[PreheatRow]:
    """A row for each model of `settings` that preheats, and for its artifacts, in the order of the
    stack file; `served` are the models with servers.
    """
    by_name: dict[str, list[Any]] = defaultdict(list)
    for job in jobs:
        if label(job, COMPONENT_LABEL) == _COMPONENT:
            by_name[label(job, INSTANCE_LABEL)].append(job)
    for model, spec in settings.models.items():
        if spec.preheat is None:
            continue
        rounds = {model: spec.preheat.round} | {
            artifact_job(model, name): each.round for name, each in spec.artifacts.items()
        }
        for name, wanted in rounds.items():
            job = newest(by_name[name]) if name in by_name else None
            mine = [] if job is None else pods_of(job, pods)
            absent = (
                ("collected", "its Job is gone; servers look for READY themselves")
                if model in served
                else (_ABSENT, "")
            )
            state, detail = absent if job is None else job_state(job, mine, last_line)
            number = wanted if job is None else _round(job, wanted)
            yield PreheatRow(
                name=name, share=spec.preheat.into, round=number, state=state, detail=detail
            )


def job_state(
    job: Mapping[str, Any],
    pods: list[Any],
    last_line: LastLine,
    *,
    container: str | None = _COMPONENT,
) -> tuple[Literal["ready", "copying", "waiting", "failed"], str]:
    """The state of a Job and the message about it, from its conditions and `pods`, the newest
    first; `container` None reads any container.
    """
    status = job.get("status", {})
    conditions = {
        each["type"]: each for each in status.get("conditions", []) if each.get("status") == "True"
    }
    message = next(filter(None, (_termination_message(each, container) for each in pods)), "")
    if "Complete" in conditions:
        return "ready", message or f"completed {status.get('completionTime', '')}".strip()
    if "Failed" in conditions or "FailureTarget" in conditions:
        failure = conditions.get("Failed") or conditions["FailureTarget"]
        return (
            "failed",
            message or f"{failure.get('reason', '')}: {failure.get('message', '')}".strip(": "),
        )
    running = next((pod for pod in pods if pod.get("status", {}).get("phase") == "Running"), None)
    if running is not None:
        return "copying", last_line(running["metadata"]["name"]) or _earlier(
            status, pods, message
        ) or "no line in its log yet"
    reason = next((each for pod in pods if (each := waiting_reason(pod, "waits for a node"))), "")
    return "waiting", reason or _earlier(status, pods, message) or "its pod has not started yet"


def _earlier(status: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], message: str) -> str:
    # The controller counts a failed pod only some seconds later.
    ended = sum(each.get("status", {}).get("phase") == "Failed" for each in pods)
    failed = max(status.get("failed", 0), ended)
    return f"try {failed + 1}; message of the last one: {message}" if failed and message else ""


def _termination_message(pod: Mapping[str, Any], container: str | None) -> str:
    for each in pod.get("status", {}).get("containerStatuses", []):
        ended = each.get("state", {}).get("terminated") or {}
        lines = str(ended.get("message") or "").strip().splitlines()
        if container in (None, each.get("name")) and lines:
            return lines[-1]
    return ""


def waiting_reason(pod: Mapping[str, Any], otherwise: str) -> str:
    """The reason why `pod` does not run: that of the scheduler (or `otherwise`), or that of a
    container. "" if there is none.
    """
    status = pod.get("status", {})
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return scheduled.get("message") or otherwise
    for each in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        if waiting := each.get("state", {}).get("waiting"):
            return f"{waiting.get('reason', 'waiting')} {waiting.get('message', '')}".strip()
    return ""


def newest(objects: Iterable[Any]) -> Any:
    return max(objects, key=_created)


def _created(manifest: Mapping[str, Any]) -> str:
    return manifest["metadata"].get("creationTimestamp") or ""


def pods_of(job: Mapping[str, Any], pods: Iterable[Any]) -> list[Any]:
    name = job["metadata"]["name"]
    mine = [
        pod
        for pod in pods
        if any(owner["name"] == name for owner in pod["metadata"].get("ownerReferences", []))
    ]
    return sorted(mine, key=_created, reverse=True)


def _round(job: Mapping[str, Any], otherwise: int) -> int:
    """The round that the Job works on, which may be older than the one that the stack file asks for
    by now.
    """
    for container in job["spec"]["template"]["spec"]["containers"]:
        for variable in container.get("env", []):
            if match := _ROUND.search(variable.get("value") or ""):
                return int(match[1])
    return otherwise
