"""Programs of a control plane that stand still for a while, because the machine is busy."""

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from inferplan.audit.history import History
from inferplan.audit.manifest import Object
from inferplan.audit.templates import select
from inferplan.kube.api import Api, ApiError
from inferplan.kube.objects import condition
from inferplan.kube.paths import mapping
from inferplan.rehearsal.wait.object_events import Key, key_of
from inferplan.rehearsal.wait.watching import Watching

_BUSY: Final = (429, 500, 503, 504)
"""Answers of an API server that cannot store an object now, and may a little later."""
_PAUSE_SECONDS: Final = 0.15
_RETRY_SECONDS: Final = 20.0
_CATCH_UP_SECONDS: Final = 0.6
_PASSED_OVER: Final = "existing pods anti-affinity"
"""The scheduler retries a pod with this reason after minutes only, whatever pods leave."""
_UNBOUND: Final = "unbound immediate PersistentVolumeClaims"
_CLAIM_NAMES: Final = "spec.volumes.*.persistentVolumeClaim.claimName"
_SURROGATES: Final = ("ReplicaSet", "StatefulSet")
"""Controllers that replace a pod at once."""
_Answer = TypeVar("_Answer")


def patiently(send: Callable[[], _Answer]) -> _Answer:
    """The answer to `send`, which is sent again while the API server is too busy. Raises ApiError."""
    deadline = time.monotonic() + _RETRY_SECONDS
    while True:
        try:
            return send()
        except ApiError as error:
            is_busy = error.status in _BUSY and "webhook" not in error.message
            if not is_busy or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)  # nothing reports when a server is less busy


def await_programs(api: Api, put: Callable[[Object], Object], urls: Iterable[str]) -> None:
    """Wait until the store has written an object, and each program has answered at its health
    endpoint of `urls`: what happens later was not delayed by one that stood still.
    """
    metadata = {"name": "inferplan-audit", "namespace": "kube-system"}
    pulse = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    with contextlib.suppress(ApiError):
        put({**pulse, "data": {"at": str(time.monotonic())}})
    for url in urls:
        api.health_problem(url, _RETRY_SECONDS)
    time.sleep(_CATCH_UP_SECONDS)  # the time that a program needs for its remaining work


def is_uncounted(watching: Watching, history: History) -> bool:
    """True if a busy controller has not counted the pods of a Service, a disruption budget or a
    quota yet.
    """
    pods = [
        each for each in watching.known("Pod") if condition(each, "Ready").get("status") == "True"
    ]
    ready = [each["metadata"] for each in pods if "deletionTimestamp" not in each["metadata"]]
    for live in watching.known("Service"):
        key, selector = key_of(live), mapping(live, "spec", "selector").items()
        selected = any(
            each["namespace"] == key.namespace and selector <= mapping(each, "labels").items()
            for each in ready
        )
        if selector and selected != bool(history.endpoints(key)):
            return True
    if any(
        mapping(each, "status", "hard") != mapping(each, "spec", "hard")
        for each in watching.known("ResourceQuota")
    ):
        return True  # until then it admits everything
    return any(
        mapping(each, "status").get("observedGeneration", 0) < each["metadata"]["generation"]
        for each in watching.known("PodDisruptionBudget")
    )


def is_unbound(watching: Watching) -> bool:
    """True if a busy controller has not bound a claim to its volume yet; each claim gets one."""
    return any(
        not each["spec"].get("volumeName") and "deletionTimestamp" not in each["metadata"]
        for each in watching.known("PersistentVolumeClaim")
    )


def is_outdated(watching: Watching) -> bool:
    """True if the scheduler still reports a pod's claims as unbound although they are bound: it
    looks at each pending pod again within 30 s.
    """
    bound = {
        key_of(each)
        for each in watching.known("PersistentVolumeClaim")
        if mapping(each, "status").get("phase") == "Bound"
    }
    return any(
        not pod["spec"].get("nodeName")
        and _UNBOUND in str(condition(pod, "PodScheduled").get("message"))
        and {
            Key("PersistentVolumeClaim", pod["metadata"]["namespace"], str(name))
            for _, name in select(pod, _CLAIM_NAMES)
        }
        <= bound
        for pod in watching.known("Pod")
    )


def retry_passed_over(api: Api, watching: Watching) -> None:
    """Replace pending pods that the scheduler passes over although a pod has left since."""
    for pod in watching.known("Pod"):
        metadata, owners = pod["metadata"], pod["metadata"].get("ownerReferences") or ()
        if (
            not pod["spec"].get("nodeName")
            and _PASSED_OVER in str(condition(pod, "PodScheduled").get("message"))
            and any(each["kind"] in _SURROGATES for each in owners)
        ):
            path = api.resource("v1", "Pod").path(metadata["namespace"], metadata["name"])
            with contextlib.suppress(ApiError), watching.idle.busy():
                api.request("DELETE", path)
