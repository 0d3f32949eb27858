"""Wait by events until an object is ready or gone. A wait ends early if no node fits a pod and
nothing else changes.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from inferplan.errors import ObjectFailed
from inferplan.kube.api import Api, ApiError, Resource
from inferplan.kube.durations import spelled
from inferplan.kube.objects import annotation, condition
from inferplan.kube.pod_causes import pods_cause
from inferplan.rehearsal.wait import reasons
from inferplan.rehearsal.wait.object_events import Key, Listener, Target, Waiting, key_of
from inferplan.rehearsal.wait.readiness import READY, SKIP_AWAIT, WAIT_FOR, Readiness, rule_for
from inferplan.rehearsal.wait.timeouts import IDLE_SECONDS
from inferplan.rehearsal.wait.watching import Watching

Object = dict[str, Any]
_CHILDLESS: Final = (
    "ConfigMap",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Secret",
    "Service",
    "ServiceAccount",
)

# Each pod wakes its owner several times, and working out a reason reads all of them. In a large
# stack many objects wait long. So the next look comes after a tenth of the time waited, within
# these seconds.
_SHORTEST, _LONGEST = 1.0, 10.0


class Interrupted(Exception):  # noqa: N818 - not an error of the object
    """The run was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """Waits for objects of the cluster behind `api` and reports reasons to `listener`; `inspect` is
    the kubectl command for a person.
    """

    api: Api
    watching: Watching
    listener: Listener
    inspect: str

    def ready(self, target: Target, live: Object, limit: float) -> Object:
        """The object when it is ready. Raises ObjectFailed if it failed or is not ready after
        `limit` seconds; Interrupted.
        """
        try:
            check = self._check_for(live)
        except ValueError as error:
            raise ObjectFailed(str(error), "correct the annotation") from error
        # A ready object needs no watch: an update without changes would read every pod and event.
        return (
            live if check is None or check(live).ready else self.until(target, live, check, limit)
        )

    def until(
        self, target: Target, applied: Object, check: Callable[[Object], Readiness], limit: float
    ) -> Object:
        """The object when `check` returns ready. Raises what `ready` raises."""
        self.watching.observe(applied["apiVersion"], applied["kind"])
        reasons.observe_for(self.watching, applied)
        began = due = time.monotonic()
        reported, is_woken = "", False
        with self.watching.sleeper(key_of(applied)) as wake:
            while True:
                wake.clear()
                current = self._current(applied)
                state = check(current)
                if state.ready:
                    return current
                now = time.monotonic()
                if is_woken and now < due and not state.failed:
                    is_woken = self._sleep(wake, due - now)
                    continue
                why, is_stuck = reasons.explained(self.watching, current, state.why)
                if state.failed:
                    raise ObjectFailed(self._with_message(current, why), self._inspect(target))
                waited, patience = (
                    now - began,
                    IDLE_SECONDS - self.watching.idle.seconds if is_stuck else math.inf,
                )
                left = min(limit - waited, patience)
                if left <= 0:
                    idle = (
                        f"; nothing has changed for {spelled(IDLE_SECONDS)}, and no autoscaler runs"
                        " here"
                        if patience <= 0
                        else ""
                    )
                    raise _too_late(waited, f"{why}{idle}", self._inspect(target))
                if why != reported:
                    self.listener(Waiting(target=target, reason=why, seconds=waited, limit=limit))
                    reported = why
                due = now + min(max(_SHORTEST, waited / 10), _LONGEST, left)
                is_woken = self._sleep(wake, left)

    def _with_message(self, live: Object, why: str) -> str:
        """`why` and, for a Job, the termination message of its failed pods."""
        if live["kind"] != "Job":
            return why
        path = self.api.resource("v1", "Pod").path(live["metadata"]["namespace"])
        mine = {"labelSelector": f"batch.kubernetes.io/job-name={live['metadata']['name']}"}
        try:
            # The watch of pods may be behind the watch of Jobs, so ask the server.
            pods = self.api.request("GET", path, query=mine)["items"]
        except ApiError:
            return why
        message = pods_cause(pods)
        if message and condition(live, "Failed").get("reason") == "PodFailurePolicy":
            return f"the Job failed: {message}"  # the condition names the same pod and exit code
        return f"{why}: {message}" if message and message not in why else why

    def _sleep(self, wake: threading.Event, seconds: float) -> bool:
        """True if `wake` was set within `seconds`. Raises Interrupted."""
        # `stop` wakes only the threads that wait already.
        is_woken = not (self.watching.stopped or self.watching.lost) and wake.wait(seconds)
        if self.watching.stopped:
            raise Interrupted
        if self.watching.lost:
            raise ObjectFailed(
                "the API server stopped answering",
                "run the same command again: it repairs the cluster and continues",
            )
        return is_woken

    def _current(self, applied: Object) -> Object:
        """The newest state, never older than `applied`."""
        seen = self.watching.get(key_of(applied))
        if seen is None or seen["metadata"]["uid"] != applied["metadata"]["uid"]:
            return applied
        return (
            seen
            if seen["metadata"].get("generation", 0) >= applied["metadata"].get("generation", 0)
            else applied
        )

    def _rounds(self, key: Key, limit: float) -> Iterator[None]:
        """One round at once and after each change of `key`, until `limit` seconds are over. Raises
        Interrupted.
        """
        began = time.monotonic()
        with self.watching.sleeper(key) as wake:
            while True:
                wake.clear()
                yield
                left = began + limit - time.monotonic()
                if left <= 0:
                    return
                self._sleep(wake, left)

    def gone(self, key: Key, uid: str, api_version: str, limit: float) -> None:
        """Return when the object `key` with `uid` is gone. Raises ObjectFailed after `limit`
        seconds; Interrupted.
        """
        self.watching.observe(api_version, key.kind)
        seen: Object | None = None
        for _ in self._rounds(key, limit):
            seen = self.watching.get(key)
            if seen is None or seen["metadata"]["uid"] != uid:
                return
        finalizers = ", ".join((seen or {}).get("metadata", {}).get("finalizers") or ()) or "none"
        message = f"still there {spelled(limit)} after its deletion; finalizers: {finalizers}"
        raise ObjectFailed(message, "run `down` again, or delete the whole cluster")

    def delete(
        self, key: Key, resource: Resource, live: Object, *, limit: float, childless: bool = False
    ) -> None:
        """Delete `live` and its children as the provider does; return when it is gone. Raises
        ObjectFailed after `limit` seconds.
        """
        uid = live["metadata"]["uid"]
        options = {
            "propagationPolicy": propagation_of(live, childless=childless),
            "preconditions": {"uid": uid},
        }
        try:
            self.api.request("DELETE", resource.path(key.namespace, key.name), options)
        except ApiError as error:
            if error.status not in (404, 409):  # not found, or another object has the name now
                raise reasons.rejection(error) from error
            return
        self.gone(key, uid, live["apiVersion"], limit)

    def exists(self, key: Key, api_version: str, limit: float) -> bool:
        self.watching.observe(api_version, key.kind)
        return any(self.watching.get(key) is not None for _ in self._rounds(key, limit))

    def _check_for(self, live: Object) -> Callable[[Object], Readiness] | None:
        rule = rule_for(live)
        custom = annotation(live, WAIT_FOR) or annotation(live, SKIP_AWAIT) == "true"
        if custom or live["kind"] not in ("Service", "PersistentVolumeClaim"):
            return rule
        if live["kind"] == "Service":
            return self._service if _targets_pods(live) else None
        return rule if rule is None or not self._binds_late(live) else None

    def _service(self, live: Object) -> Readiness:
        # The provider waits until no address is unready, and accepts a Service without addresses:
        # pods may come later.
        self.watching.observe("discovery.k8s.io/v1", "EndpointSlice")
        slices = self.watching.owned("EndpointSlice", live["metadata"]["uid"])
        if not slices:
            return Readiness(why="the Service has no EndpointSlice yet")
        addresses = [
            each.get("conditions") or {} for part in slices for each in part.get("endpoints") or ()
        ]
        unready = [
            each for each in addresses if each.get("ready") is False and not each.get("terminating")
        ]
        return (
            Readiness(why=f"{len(unready)} of {len(addresses)} addresses are not ready")
            if unready
            else READY
        )

    def _binds_late(self, claim: Object) -> bool:
        name = claim["spec"].get("storageClassName")
        if not name:
            return False
        try:
            storage_class = self.api.request(
                "GET", f"/apis/storage.k8s.io/v1/storageclasses/{name}"
            )
        except ApiError:
            return False  # static volumes use classes without an object
        return storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _inspect(self, target: Target) -> str:
        namespace = f" -n {target.namespace}" if target.namespace else ""
        return (
            f"inspect it with `{self.inspect} describe {target.kind.lower()}"
            f" {target.name}{namespace}`"
        )


def propagation_of(live: Object, *, childless: bool) -> str:
    policy = annotation(live, "pulumi.com/deletionPropagationPolicy").capitalize()
    if policy in ("Orphan", "Background"):
        return policy
    # The provider deletes in the foreground. Without children that only delays it: the garbage
    # collector needs a round, and up to 30 s for a new kind.
    childless = childless or (live["apiVersion"] == "v1" and live["kind"] in _CHILDLESS)
    return "Background" if childless else "Foreground"


def _targets_pods(service: Object) -> bool:
    spec = service["spec"]
    return (
        bool(spec.get("selector"))
        and spec.get("clusterIP") != "None"
        and spec.get("type") != "ExternalName"
    )


def _too_late(waited: float, why: str, inspect: str) -> ObjectFailed:
    remedy = f"{inspect}; if it only needs longer, raise its custom timeout"
    if "persistentvolumeclaim" in why:
        remedy = f"create the claim, or correct the name of it; {inspect}"
    elif "Insufficient" in why or "exceeded quota" in why:
        remedy = f"request less, or enlarge its pool or quota; {inspect}"
    elif "nodes are available" in why:
        remedy = (
            f"compare the pod's node selector, affinity and tolerations with the nodes; {inspect}"
        )
    if "kubectl uncordon" in why:
        remedy = f"uncordon the nodes that should take pods; {inspect}"
    return ObjectFailed(f"not ready after {spelled(waited)}: {why}", remedy)
