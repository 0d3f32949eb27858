"""Makes, awaits and removes what an operator that does not run here would make, and says so in the object's status.

So pods of LeaderWorkerSets and RayServices are admitted, counted by quotas, scheduled and Ready like any others. It acts
while `up` and `down` run and watches nothing afterwards: what is deleted by hand comes back with the next `up`.
"""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rehearsal.cluster.api import Api, ApiError
from rehearsal.engine.apply.deletion import delete
from rehearsal.engine.apply.operators import leader_worker_set, ray_service
from rehearsal.engine.wait.errors import ObjectFailed
from rehearsal.engine.wait.readiness import READY, Readiness, condition, ready_addresses, rule_for
from rehearsal.engine.wait.refusals import refusal
from rehearsal.engine.wait.watching import Key, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rehearsal.engine.apply.operators.crew import Crew
    from rehearsal.engine.wait.object_events import Target
    from rehearsal.engine.wait.waiter import Waiter
    from rehearsal.engine.wait.watching import Watching

Object = dict[str, Any]

MANAGER: Final = "inferplan-stand-in"
_CREWS: Final[dict[str, Callable[[Object, list[Object]], Crew]]] = {
    "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet": leader_worker_set.crew,
    "ray.io/v1/RayService": ray_service.crew,
}
_MADE: Final = (("apps/v1", "StatefulSet"), ("v1", "Pod"), ("v1", "Service"))


def operated(live: Object) -> bool:
    """Whether an operator would act on `live`, and this module does instead."""
    return _kind(live) in _CREWS


def _kind(live: Object) -> str:
    return f"{live['apiVersion']}/{live['kind']}"


def ready(api: Api, waiter: Waiter, target: Target, live: Object, limit: float) -> tuple[Object, str]:
    """`live` once it is ready, and what was done in the place of an operator, "" when there is none.

    Raises ObjectFailed when a child is refused or not ready after `limit` seconds, which the object's status then says too.
    """
    if not operated(live):
        return waiter.ready(target, live, limit), ""
    until = time.monotonic() + limit
    while True:
        if suspended(live):
            live = _held_back(api, waiter, target, live, until - time.monotonic())
        note = _realize(api, waiter, target, live, until - time.monotonic())
        seen = waiter.until(target, live, _told_of(live), until - time.monotonic())
        if not _changed(seen, live):
            return waiter.ready(target, seen, until - time.monotonic()), note
        # Somebody who may, such as Kueue, changed it meanwhile: an operator would begin anew.
        live = seen


def _realize(api: Api, waiter: Waiter, target: Target, live: Object, limit: float) -> str:
    """Make and await what belongs to `live`, unless that changes meanwhile; the note of what was done."""
    owned = _owned(api, live)
    crew = _CREWS[_kind(live)](live, owned)
    try:
        made = [_make(api, each, live) for each in crew.children]
        seen = waiter.until(target, live, _check(api, waiter, live, made, crew), limit)
    except ObjectFailed as failed:
        _say(api, live, crew, failed.message, is_ready=False)
        raise
    if _changed(seen, live):
        return ""
    if not crew.held:
        kept = {key_of(each) for each in made}
        _remove(api, waiter, (each for each in owned if key_of(each) not in kept), limit)
    _say(api, live, crew, crew.note, is_ready=True)
    return crew.note


def _changed(seen: Object, live: Object) -> bool:
    return bool(seen["metadata"]["generation"] != live["metadata"]["generation"])


def _told_of(live: Object) -> Callable[[Object], Readiness]:
    def check(seen: Object) -> Readiness:
        told = (seen.get("status") or {}).get("observedGeneration") == live["metadata"]["generation"]
        return READY if told or _changed(seen, live) else Readiness(why="its status is on its way")

    return check


def dismantle(api: Api, waiter: Waiter, live: Object, limit: float) -> None:
    """Delete what was made for `live`, and return when it is gone. Raises ObjectFailed after `limit` seconds."""
    _remove(api, waiter, _owned(api, live), limit)


def suspended(live: Object) -> bool:
    """Whether a RayService is told to have no cluster; whoever admits workloads, such as Kueue, says so until there is room."""
    spec = live["spec"]
    return live["kind"] == "RayService" and bool(spec.get("suspend") or spec["rayClusterConfig"].get("suspend"))


def _held_back(api: Api, waiter: Waiter, target: Target, live: Object, limit: float) -> Object:
    """Leave nothing of a cluster that is suspended, as its operator does, and wait until it may be there; the object as it then is."""
    crew = _CREWS[_kind(live)](live, [])
    _remove(api, waiter, _owned(api, live), limit)
    _say(api, live, crew, "it is suspended", is_ready=False)

    def check(seen: Object) -> Readiness:
        return Readiness(why="it is suspended") if suspended(seen) else READY

    return waiter.until(target, live, check, limit)


def _make(api: Api, child: Object, owner: Object) -> Object:
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {key: owner["metadata"][key] for key in ("name", "uid")}
    metadata: Object = {**child["metadata"], "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}]}
    path = api.resource(child["apiVersion"], child["kind"]).path(metadata["namespace"], metadata["name"])
    try:
        return api.apply(path, {**child, "metadata": metadata}, manager=MANAGER, force=True)[0]
    except ApiError as error:
        failed = refusal(error)
        raise ObjectFailed(f"{child['kind']} {metadata['name']}: {failed.message}", failed.remedy) from error


def _check(api: Api, waiter: Waiter, live: Object, made: list[Object], crew: Crew) -> Callable[[Object], Readiness]:
    watching = waiter.watching
    services = {each["metadata"]["name"]: each["metadata"]["uid"] for each in made if each["kind"] == "Service"}
    if crew.endpoints:
        watching.observe("discovery.k8s.io/v1", "EndpointSlice")
    rules = {key_of(each): (rule, each) for each in made if (rule := rule_for(each)) is not None}
    for each in made:
        watching.observe(each["apiVersion"], each["kind"])

    def check(owner: Object) -> Readiness:
        if _changed(owner, live):
            return READY
        _label_pods(api, watching, owner["metadata"]["namespace"], crew.pod_labels)
        for key, (rule, applied) in rules.items():
            found = _of_child(key, rule, applied, watching.get(key))
            if not found.ready:
                return found
        for service, wanted in crew.endpoints.items():
            addresses = ready_addresses(watching.owned("EndpointSlice", services[service]))
            if addresses < wanted:
                return Readiness(why=f"Service {service}: {addresses} of {wanted} addresses are ready")
        return READY

    return check


def _of_child(key: Key, rule: Callable[[Object], Readiness], applied: Object, seen: Object | None) -> Readiness:
    if seen is None or seen["metadata"].get("generation", 0) < applied["metadata"].get("generation", 0):
        return Readiness(why=f"{key.kind} {key.name} was applied a moment ago")
    found = rule(seen)
    if not found.ready:
        return Readiness(why=f"{key.kind} {key.name}: {found.why}", failed=found.failed)
    # A StatefulSet is ready before the pods of its former count are gone, and they still hold their cards.
    pods, wanted = (seen.get("status") or {}).get("replicas"), seen["spec"].get("replicas")
    if key.kind == "StatefulSet" and pods != wanted:
        return Readiness(why=f"StatefulSet {key.name}: {pods} pods are there, {wanted} are wanted")
    return READY


def _label_pods(api: Api, watching: Watching, namespace: str, wanted: Mapping[str, Mapping[str, str]]) -> None:
    for name, labels in wanted.items():
        pod = watching.get(Key("Pod", namespace, name))
        if pod is None or labels.items() <= (pod["metadata"].get("labels") or {}).items():
            continue
        change = {"metadata": {"uid": pod["metadata"]["uid"], "labels": dict(labels)}}
        # Gone, or another pod of the same name: the watch tells of the next one.
        with contextlib.suppress(ApiError):
            api.request("PATCH", api.resource("v1", "Pod").path(namespace, name), change, media="application/merge-patch+json")


def _owned(api: Api, live: Object) -> list[Object]:
    uid, namespace = live["metadata"]["uid"], live["metadata"]["namespace"]
    found: list[Object] = []
    for api_version, kind in _MADE:
        listed = api.request("GET", api.resource(api_version, kind).path(namespace))["items"]
        mine = (each for each in listed if any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences") or ()))
        found += [{"apiVersion": api_version, "kind": kind, **each} for each in mine]
    return found


def _remove(api: Api, waiter: Waiter, children: Iterable[Object], limit: float) -> None:
    for each in children:
        delete(api, waiter, key_of(each), api.resource(each["apiVersion"], each["kind"]), each, limit=limit)


def _say(api: Api, live: Object, crew: Crew, message: str, *, is_ready: bool) -> None:
    """Write the status that the operator would write, its message in our own words."""
    words = {
        crew.condition: "True" if is_ready else "False",
        **{each: word if is_ready else "Unknown" for each, word in crew.settled.items()},
    }
    generation = live["metadata"]["generation"]
    told = [_told(live, each, word, message) for each, word in words.items()]
    body = {
        **{key: live[key] for key in ("apiVersion", "kind")},
        "metadata": {key: live["metadata"][key] for key in ("name", "namespace")},
        "status": {**(crew.status if is_ready else {}), "observedGeneration": generation, "conditions": told},
    }
    path = api.resource(live["apiVersion"], live["kind"]).path(live["metadata"]["namespace"], live["metadata"]["name"])
    api.apply(f"{path}/status", body, manager=MANAGER, force=True)


def _told(live: Object, type_: str, word: str, message: str) -> Object:
    before = condition(live, type_)
    same = before.get("status") == word
    return {
        "type": type_,
        "status": word,
        "reason": "Rehearsed",
        "message": message,
        "observedGeneration": live["metadata"]["generation"],
        "lastTransitionTime": before["lastTransitionTime"] if same else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
