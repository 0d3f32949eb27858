"""Why a pod does not run, from its own status: how its containers ended, and what they wait for."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from inferplan.kube.objects import is_true
from inferplan.kube.paths import mapping

Object = Mapping[str, Any]
# A container with one of these reasons waits for something else, or for its own restart.
_UNTELLING = ("ContainerCreating", "PodInitializing", "Completed", "CrashLoopBackOff")


def pods_cause(pods: Iterable[Object]) -> str:
    """The cause of the newest of `pods` that has one, with the pod's name; "" if none has."""
    for pod in sorted(
        pods, key=lambda each: str(each["metadata"].get("creationTimestamp", "")), reverse=True
    ):
        if cause := pod_cause(pod):
            return f"pod {pod['metadata']['name']}: {cause}"
    return ""


def pod_cause(pod: Object) -> str:
    """Return what keeps `pod` from running: its eviction, a container that cannot start, or the newest end
    of one; "" if its status does not say. The scheduler's message is not part of it.
    """
    if is_true(pod, "Ready"):
        return ""
    status = mapping(pod, "status")
    if status.get("phase") == "Failed" and status.get("reason"):
        return f"{status['reason']}: {status.get('message', '')}".strip(": ")
    containers = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    waiting = next(filter(None, map(_wait, containers)), "")
    return waiting or _newest_end(pod, containers)


def _wait(container: Object) -> str:
    waiting = mapping(container, "state").get("waiting") or {}
    reason, message = waiting.get("reason"), waiting.get("message")
    if not reason or reason in _UNTELLING:
        return ""
    return f"container {container['name']}: {reason}{f': {message}' if message else ''}"


def _newest_end(pod: Object, containers: Iterable[Object]) -> str:
    lasting = mapping(pod, "status").get("containerStatuses") or ()
    ends = [
        (str(end.get("finishedAt", "")), container, end)
        for container in containers
        for end in _ends(container, has_to_run=container in lasting)
    ]
    if not ends:
        return ""
    _, container, end = max(ends, key=lambda each: each[0])
    facts = [str(end["reason"])] if end.get("reason") not in (None, "Error") else []
    if end.get("reason") == "OOMKilled" and (limit := _memory_limit(pod, container["name"])):
        facts.append(f"memory limit {limit}")
    if restarts := container.get("restartCount"):
        facts.append(f"{restarts} restart{'s' if restarts > 1 else ''}")
    lines = str(end.get("message") or "").strip().splitlines()
    text = f"container {container['name']} ended with exit code {end['exitCode']}"
    return text + (f" ({', '.join(facts)})" if facts else "") + (f": {lines[-1]}" if lines else "")


def _ends(container: Object, *, has_to_run: bool) -> Iterator[Object]:
    """The failed end of `container`: of this run, or of the last one if it is not ready again. One
    that `has_to_run` and started again should not have ended with code 0 either, as vLLM's server
    does when its engine dies.
    """
    if container.get("ready"):
        return
    for state in ("state", "lastState"):
        end = mapping(container, state).get("terminated")
        if end and not end.get("exitCode") and not (has_to_run and state == "lastState"):
            return
        if end:
            yield end
            return


def _memory_limit(pod: Object, name: str) -> str:
    spec = mapping(pod, "spec")
    for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if each.get("name") == name:
            return str(mapping(each, "resources", "limits").get("memory", ""))
    return ""
