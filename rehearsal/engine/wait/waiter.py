"""Waits until an object is ready, or gone, woken by what the cluster says about it, never by a timer.

The only clock is the limit, which is cut short when a pod fits nowhere and nothing else moves: the error then names the
resource, how long it was waited for, the last known reason in the cluster's own words, and what to do.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rehearsal.cluster.api import Api, ApiError
from rehearsal.engine.wait import reasons
from rehearsal.engine.wait.durations import spelled
from rehearsal.engine.wait.errors import ObjectFailed
from rehearsal.engine.wait.idle import STANDSTILL_SECONDS
from rehearsal.engine.wait.object_events import Listener, Target, Waiting
from rehearsal.engine.wait.readiness import READY, SKIP_AWAIT, WAIT_FOR, Readiness, annotation, condition, rule_for
from rehearsal.engine.wait.watching import Key, Watching, key_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

Object = dict[str, Any]
Check = "Callable[[Object], Readiness]"


class Interrupted(Exception):  # noqa: N818 - the wait was broken off, nothing is wrong with the object
    """The run was broken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """Waits on the cluster behind `api`, telling `listener` what for."""

    api: Api
    watching: Watching
    listener: Listener
    inspect: str
    """How a person looks at an object, with `{kind}`, `{name}` and `{namespace}` to fill in."""

    def ready(self, target: Target, live: Object, limit: float) -> Object:
        """The object once it is ready, after `limit` seconds at most.

        Raises ObjectFailed when it failed, is deleted meanwhile, or the limit is reached; Interrupted.
        """
        try:
            check = self._check_for(live)
        except ValueError as error:
            raise ObjectFailed(str(error), "correct the annotation") from error
        return live if check is None else self.until(target, live, check, limit)

    def until(self, target: Target, applied: Object, check: Callable[[Object], Readiness], limit: float) -> Object:
        """The object once `check` says so, after `limit` seconds at most; raises as `ready` does."""
        self.watching.observe(applied["apiVersion"], applied["kind"])
        reasons.observe_for(self.watching, applied)
        began, told = time.monotonic(), ""
        with self.watching.sleeper(key_of(applied)) as wake:
            while True:
                wake.clear()
                current = self._current(applied)
                found = check(current)
                if found.ready:
                    return current
                cause = reasons.why(self.watching, current)
                why = f"{found.why}: {cause}" if cause and cause not in found.why else found.why
                if found.failed:
                    raise ObjectFailed(self._quoting(current, why), self._look(target))
                waited = time.monotonic() - began
                left = min(limit - waited, hope := self._hope(current))
                if left <= 0:
                    still = f"; nothing has moved for {spelled(STANDSTILL_SECONDS)}, and no autoscaler runs here" if hope <= 0 else ""
                    raise _too_late(waited, f"{why}{still}", self._look(target))
                if why != told:
                    self.listener(Waiting(target=target, reason=why, seconds=waited, limit=limit))
                    told = why
                self._sleep(wake, left)

    def _hope(self, live: Object) -> float:
        """Seconds for which it makes sense to wait for `live` if nothing moves."""
        return STANDSTILL_SECONDS - self.watching.standstill.seconds if reasons.fits_nowhere(self.watching, live) else math.inf

    def _quoting(self, live: Object, why: str) -> str:
        """`why`, and what the pods of a Job that failed said last."""
        if live["kind"] != "Job":
            return why
        path = self.api.resource("v1", "Pod").path(live["metadata"]["namespace"])
        mine = {"labelSelector": f"batch.kubernetes.io/job-name={live['metadata']['name']}"}
        try:
            # Asked for, not taken from the live copy: news of a pod and of its Job come by two watches, in any order.
            pods = self.api.request("GET", path, query=mine)["items"]
        except ApiError:
            return why
        said = reasons.last_words(pods)
        if said and condition(live, "Failed").get("reason") == "PodFailurePolicy":
            # Its message names the same pod and exit code once more.
            return f"the Job failed: {said}"
        return f"{why}: {said}" if said and said not in why else why

    def _sleep(self, wake: threading.Event, seconds: float) -> None:
        # Who begins to wait when all is over already is woken by nobody.
        if not (self.watching.stopped or self.watching.lost):
            wake.wait(seconds)
        if self.watching.stopped:
            raise Interrupted
        if self.watching.lost:
            raise ObjectFailed("the API server stopped answering", "run the same command again: it repairs the cluster and goes on")

    def _current(self, applied: Object) -> Object:
        """The newest known state, which is never older than what was applied."""
        seen = self.watching.get(key_of(applied))
        if seen is None or seen["metadata"]["uid"] != applied["metadata"]["uid"]:
            return applied
        return seen if seen["metadata"].get("generation", 0) >= applied["metadata"].get("generation", 0) else applied

    def gone(self, key: Key, uid: str, api_version: str, limit: float) -> None:
        """Return when the object `key` with `uid` is gone. Raises ObjectFailed after `limit` seconds; Interrupted."""
        self.watching.observe(api_version, key.kind)
        began = time.monotonic()
        with self.watching.sleeper(key) as wake:
            while True:
                wake.clear()
                seen = self.watching.get(key)
                if seen is None or seen["metadata"]["uid"] != uid:
                    return
                waited = time.monotonic() - began
                if waited >= limit:
                    held = ", ".join(seen["metadata"].get("finalizers") or ()) or "nothing that it names"
                    message = f"still there {spelled(waited)} after its deletion; it is held by {held}"
                    raise ObjectFailed(message, "run `down` again, or delete the whole cluster")
                self._sleep(wake, limit - waited)

    def exists(self, key: Key, api_version: str, limit: float) -> bool:
        """Whether the object `key` is there, waiting for it up to `limit` seconds."""
        self.watching.observe(api_version, key.kind)
        until = time.monotonic() + limit
        with self.watching.sleeper(key) as wake:
            while self.watching.get(key) is None:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._sleep(wake, left)
                wake.clear()
        return True

    def _check_for(self, live: Object) -> Callable[[Object], Readiness] | None:
        rule = rule_for(live)
        custom = annotation(live, WAIT_FOR) or annotation(live, SKIP_AWAIT) == "true"
        if custom or live["kind"] not in ("Service", "PersistentVolumeClaim"):
            return rule
        if live["kind"] == "Service":
            return self._service if _targets_pods(live) else None
        return rule if rule is None or not self._binds_late(live) else None

    def _service(self, live: Object) -> Readiness:
        # The provider waits until no address is unready, and is content with none at all: pods may come later.
        self.watching.observe("discovery.k8s.io/v1", "EndpointSlice")
        slices = self.watching.owned("EndpointSlice", live["metadata"]["uid"])
        if not slices:
            return Readiness(why="the Service has no EndpointSlice yet")
        addresses = [each.get("conditions") or {} for part in slices for each in part.get("endpoints") or ()]
        unready = [each for each in addresses if each.get("ready") is False and not each.get("terminating")]
        return Readiness(why=f"{len(unready)} of {len(addresses)} addresses are not ready") if unready else READY

    def _binds_late(self, claim: Object) -> bool:
        name = claim["spec"].get("storageClassName")
        if not name:
            return False
        try:
            found = self.api.request("GET", f"/apis/storage.k8s.io/v1/storageclasses/{name}")
        except ApiError:
            return False  # a class without an object is how static volumes are matched
        return found.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _look(self, target: Target) -> str:
        place = f" -n {target.namespace}" if target.namespace else ""
        return f"look at it with `{self.inspect} describe {target.kind.lower()} {target.name}{place}`"


def _targets_pods(service: Object) -> bool:
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName"


def _too_late(waited: float, why: str, look: str) -> ObjectFailed:
    remedy = f"{look}; when it only needs longer, raise its custom timeout"
    if "Insufficient" in why or "nodes are available" in why or "exceeded quota" in why:
        remedy = f"ask for less, or give its pool or quota more; {look}"
    return ObjectFailed(f"not ready after {spelled(waited)}: {why}", remedy)
