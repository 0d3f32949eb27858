"""The state of engine builds, of the benchmark, and of Kueue's queues, as plain rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kube.names import COMPONENT_LABEL, INSTANCE_LABEL, KUEUE_API
from operations.preheat_status import job_state, label, pods_of
from stackfile.stack import StackSettings

_STATES = {"ready": "complete", "copying": "running"}
_ABSENT = "not applied yet"


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """An engine build or the benchmark: complete, running, waiting, failed, collected (its Job is gone) or not applied yet."""

    name: str
    kind: str
    state: str
    message: str


@dataclass(frozen=True, kw_only=True)
class QueueRow:
    """A Kueue queue: its workloads that are admitted and that wait, and why it is not active."""

    name: str
    pools: tuple[str, ...]
    admitted: int
    pending: int
    state: str
    message: str


def job_rows(
    settings: StackSettings, jobs: Iterable[Any], pods: Iterable[Any], *, served: Collection[str], messages: Mapping[tuple[str, str], str]
) -> Iterable[JobRow]:
    """A row per engine build and one for the benchmark; `messages` are Kueue's, by kind and name of the workload."""
    builds = {name: name in served for name, spec in settings.models.items() if spec.builds_engines}
    names = {("engine-build", name): collected for name, collected in builds.items()}
    if settings.benchmark is not None:
        names["benchmark", "benchmark"] = False
    for (component, name), collected in names.items():
        mine = [job for job in jobs if label(job, COMPONENT_LABEL) == component and label(job, INSTANCE_LABEL) == name]
        kind = component.replace("-", " ")
        if not mine:
            yield JobRow(name=name, kind=kind, state="collected" if collected else _ABSENT, message="")
            continue
        job = max(mine, key=lambda each: each["metadata"].get("creationTimestamp") or "")
        state, message = job_state(job, pods_of(job, pods), lambda _pod: "", container=None)
        if job.get("spec", {}).get("suspend"):
            reason = messages.get(("Job", job["metadata"]["name"]), "its share of the quota")
            state, message = "waiting", f"waits in a queue: {reason}"
        yield JobRow(name=name, kind=kind, state=_STATES.get(state, state), message=message)


def queue_rows(settings: StackSettings, get: Callable[[str], Mapping[str, Any]]) -> Iterable[QueueRow]:
    """A row per queue of the stack, from the status of its LocalQueue."""
    if not settings.queues:
        return
    group, _, _ = KUEUE_API.partition("/")
    objects: dict[str, Any] = {}
    if any(each["name"] == group for each in get("/apis").get("groups", [])):
        listed = get(f"/apis/{KUEUE_API}/namespaces/{settings.namespace}/localqueues").get("items", [])
        objects = {each["metadata"]["name"]: each for each in listed}
    for name, spec in settings.queues.items():
        status = objects.get(name, {}).get("status", {})
        active = next((each for each in status.get("conditions", ()) if each["type"] == "Active"), {})
        state = (
            _ABSENT if name not in objects else {"True": "active", "False": "not active"}.get(active.get("status", ""), "not seen by Kueue")
        )
        yield QueueRow(
            name=name,
            pools=tuple(spec.pools),
            admitted=status.get("admittedWorkloads", 0),
            pending=status.get("pendingWorkloads", 0),
            state=state,
            message="" if state == "active" else active.get("message", ""),
        )
