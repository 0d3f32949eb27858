"""Create, await and delete the children that an operator would create, while `up` and `down` run,
and say so in the status.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from inferplan.errors import ObjectFailed
from inferplan.kube.api import Api, ApiError
from inferplan.kube.objects import condition
from inferplan.rehearsal.apply.operators import dynamo, leader_worker_set, ray_service
from inferplan.rehearsal.apply.operators.stub import Object, Stub
from inferplan.rehearsal.wait.object_events import Key, Target, key_of
from inferplan.rehearsal.wait.readiness import READY, Readiness, ready_addresses, rule_for
from inferplan.rehearsal.wait.reasons import rejection
from inferplan.rehearsal.wait.waiter import Waiter
from inferplan.rehearsal.wait.watching import Watching

MANAGER: Final = "inferplan-stub"
_STUBS: Final[dict[str, Callable[[Object, list[Object]], Stub]]] = {
    "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet": leader_worker_set.stub,
    "ray.io/v1/RayService": ray_service.stub,
    "ray.io/v1/RayCluster": ray_service.cluster_stub,
    "nvidia.com/v1alpha1/DynamoGraphDeployment": dynamo.stub,
    "nvidia.com/v1beta1/DynamoGraphDeployment": dynamo.stub,
}
_CHILDREN: Final = (
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "Deployment"),
    ("v1", "Pod"),
    ("v1", "Service"),
)


def has_stub(live: Object) -> bool:
    """True if a stub replaces the operator of the kind of `live`."""
    return _kind(live) in _STUBS


def _kind(live: Object) -> str:
    return f"{live['apiVersion']}/{live['kind']}"


def ready(
    api: Api, waiter: Waiter, target: Target, live: Object, limit: float
) -> tuple[Object, str]:
    """The object `live` when it is ready, and the note of its stub. Raises ObjectFailed, also in
    its status, after `limit` seconds.
    """
    if not has_stub(live):
        return waiter.ready(target, live, limit), ""
    until = time.monotonic() + limit
    while True:
        if suspended(live):
            live = _suspend(api, waiter, target, live, until - time.monotonic())
        note = _reconcile(api, waiter, target, live, until - time.monotonic())
        seen = waiter.until(target, live, _observes(live), until - time.monotonic())
        if not _changed(seen, live):
            return waiter.ready(target, seen, until - time.monotonic()), note
        # Another controller, such as Kueue, changed the object: start again, as the operator would.
        live = seen


def advance(api: Api, waiter: Waiter, live: Object, limit: float) -> tuple[Readiness, str]:
    """One turn of the stub of `live`, without waiting: its state, and the stub's note. Only
    obsolete children are awaited, for `limit` s.
    """
    owned = _owned(api, live)
    if suspended(live):
        return Readiness(why="it is suspended"), ""
    stub = _STUBS[_kind(live)](live, owned)
    children = [_apply(api, each, live) for each in stub.children]
    state = _check(api, waiter, live, children, stub)(live)
    if state.ready:
        _settle(api, waiter, live, stub, children, owned, limit)
    return state, stub.note


def _reconcile(api: Api, waiter: Waiter, target: Target, live: Object, limit: float) -> str:
    """Apply and await the children of `live` until it changes. Returns the note of the stub."""
    owned = _owned(api, live)
    stub = _STUBS[_kind(live)](live, owned)
    try:
        children = [_apply(api, each, live) for each in stub.children]
        seen = waiter.until(target, live, _check(api, waiter, live, children, stub), limit)
    except ObjectFailed as failed:
        _write_status(api, live, stub, failed.message, is_ready=False)
        raise
    if _changed(seen, live):
        return ""
    _settle(api, waiter, live, stub, children, owned, limit)
    return stub.note


def _settle(
    api: Api,
    waiter: Waiter,
    live: Object,
    stub: Stub,
    children: list[Object],
    owned: list[Object],
    limit: float,
) -> None:
    """Delete the obsolete ones of `owned`, and say in the status that `live` is ready."""
    if not stub.keep_reason:
        current = {key_of(each) for each in children}
        _delete(api, waiter, (each for each in owned if key_of(each) not in current), limit)
    _write_status(api, live, stub, stub.note, is_ready=True)


def _changed(seen: Object, live: Object) -> bool:
    return bool(seen["metadata"]["generation"] != live["metadata"]["generation"])


def _observes(live: Object) -> Callable[[Object], Readiness]:
    def check(seen: Object) -> Readiness:
        current = (seen.get("status") or {}).get("observedGeneration") == live["metadata"][
            "generation"
        ]
        return READY if current or _changed(seen, live) else Readiness(why="waiting for its status")

    return check


def delete_children(api: Api, waiter: Waiter, live: Object, limit: float) -> bool:
    """Delete the children of `live` and wait until they are gone. Returns False if there is no stub
    that could have created any.
    """
    if not has_stub(live):
        return False
    _delete(api, waiter, _owned(api, live), limit)
    return True


def suspended(live: Object) -> bool:
    """True if Ray must have no cluster, for example until Kueue admits it."""
    spec = live["spec"]
    return live["kind"].startswith("Ray") and bool(
        spec.get("suspend") or spec.get("rayClusterConfig", {}).get("suspend")
    )


def _suspend(api: Api, waiter: Waiter, target: Target, live: Object, limit: float) -> Object:
    """Delete the children of a suspended object, as its operator does, and return the object when
    it is resumed.
    """
    _delete(api, waiter, _owned(api, live), limit)
    _write_status(api, live, _STUBS[_kind(live)](live, []), "it is suspended", is_ready=False)

    def check(seen: Object) -> Readiness:
        return Readiness(why="it is suspended") if suspended(seen) else READY

    return waiter.until(target, live, check, limit)


def _apply(api: Api, child: Object, owner: Object) -> Object:
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {
        key: owner["metadata"][key] for key in ("name", "uid")
    }
    metadata: Object = {
        **child["metadata"],
        "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
    }
    path = api.resource(child["apiVersion"], child["kind"]).path(
        metadata["namespace"], metadata["name"]
    )
    if child["kind"] == "Service":
        # An operator leaves a Service alone that it did not make.
        with contextlib.suppress(ApiError):
            live: Object = api.request("GET", path)
            if all(
                each["uid"] != owner["metadata"]["uid"]
                for each in live["metadata"].get("ownerReferences") or ()
            ):
                return live
    try:
        return api.apply(path, {**child, "metadata": metadata}, manager=MANAGER, force=True)[0]
    except ApiError as error:
        failed = rejection(error)
        raise ObjectFailed(
            f"{child['kind']} {metadata['name']}: {failed.message}", failed.remedy
        ) from error


def _check(
    api: Api, waiter: Waiter, live: Object, children: list[Object], stub: Stub
) -> Callable[[Object], Readiness]:
    watching = waiter.watching
    services = {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in children
        if each["kind"] == "Service"
    }
    if stub.endpoints:
        watching.observe("discovery.k8s.io/v1", "EndpointSlice")
    rules = {
        key_of(each): (rule, each) for each in children if (rule := rule_for(each)) is not None
    }
    for each in children:
        watching.observe(each["apiVersion"], each["kind"])

    def check(owner: Object) -> Readiness:
        if _changed(owner, live):
            return READY
        _label_pods(api, watching, owner["metadata"]["namespace"], stub.pod_labels)
        for key, (rule, applied) in rules.items():
            state = _child_state(key, rule, applied, watching.get(key))
            if not state.ready:
                return state
        for service, wanted in stub.endpoints.items():
            addresses = ready_addresses(watching.owned("EndpointSlice", services[service]))
            if addresses < wanted:
                return Readiness(
                    why=f"Service {service}: {addresses} of {wanted} addresses are ready"
                )
        return READY

    return check


def _child_state(
    key: Key, rule: Callable[[Object], Readiness], applied: Object, seen: Object | None
) -> Readiness:
    if seen is None or seen["metadata"].get("generation", 0) < applied["metadata"].get(
        "generation", 0
    ):
        return Readiness(why=f"{key.kind} {key.name} is not visible yet")
    state = rule(seen)
    if not state.ready:
        return Readiness(why=f"{key.kind} {key.name}: {state.why}", failed=state.failed)
    # A StatefulSet that shrinks is ready before its surplus pods are gone, and they still occupy
    # accelerators.
    pods, wanted = (seen.get("status") or {}).get("replicas"), seen["spec"].get("replicas")
    if key.kind == "StatefulSet" and pods != wanted:
        return Readiness(why=f"StatefulSet {key.name}: {pods} pods exist, {wanted} are wanted")
    return READY


def _label_pods(
    api: Api, watching: Watching, namespace: str, wanted: Mapping[str, Mapping[str, str]]
) -> None:
    for name, labels in wanted.items():
        pod = watching.get(Key("Pod", namespace, name))
        if pod is None or labels.items() <= (pod["metadata"].get("labels") or {}).items():
            continue
        change = {"metadata": {"uid": pod["metadata"]["uid"], "labels": dict(labels)}}
        # The pod is gone, or another one has its name: the watch reports the next one.
        with contextlib.suppress(ApiError):
            api.request(
                "PATCH",
                api.resource("v1", "Pod").path(namespace, name),
                change,
                media="application/merge-patch+json",
            )


def _owned(api: Api, live: Object) -> list[Object]:
    uid, namespace = live["metadata"]["uid"], live["metadata"]["namespace"]
    children: list[Object] = []
    for api_version, kind in _CHILDREN:
        listed = api.request("GET", api.resource(api_version, kind).path(namespace))["items"]
        mine = (
            each
            for each in listed
            if any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences") or ())
        )
        children += [{"apiVersion": api_version, "kind": kind, **each} for each in mine]
    return children


def _delete(api: Api, waiter: Waiter, children: Iterable[Object], limit: float) -> None:
    for each in children:
        waiter.delete(
            key_of(each), api.resource(each["apiVersion"], each["kind"]), each, limit=limit
        )


def _write_status(api: Api, live: Object, stub: Stub, message: str, *, is_ready: bool) -> None:
    values = {
        stub.condition: "True" if is_ready else "False",
        **{each: value if is_ready else "Unknown" for each, value in stub.settled.items()},
    }
    generation = live["metadata"]["generation"]
    conditions = [_condition(live, each, value, message) for each, value in values.items()]
    body = {
        **{key: live[key] for key in ("apiVersion", "kind")},
        "metadata": {key: live["metadata"][key] for key in ("name", "namespace")},
        "status": {
            **(stub.status if is_ready else {}),
            "observedGeneration": generation,
            "conditions": conditions,
        },
    }
    path = api.resource(live["apiVersion"], live["kind"]).path(
        live["metadata"]["namespace"], live["metadata"]["name"]
    )
    api.apply(f"{path}/status", body, manager=MANAGER, force=True)


def _condition(live: Object, type_: str, value: str, message: str) -> Object:
    before = condition(live, type_)
    same = before.get("status") == value
    return {
        "type": type_,
        "status": value,
        "reason": "Rehearsed",
        "message": message,
        "observedGeneration": live["metadata"]["generation"],
        "lastTransitionTime": before["lastTransitionTime"]
        if same
        else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
