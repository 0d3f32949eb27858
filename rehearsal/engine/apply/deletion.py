"""Deletes one object as the provider does and waits until it is gone; what operators made for it is not its business."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rehearsal.cluster.api import Api, ApiError, Resource
from rehearsal.engine.wait.readiness import annotation
from rehearsal.engine.wait.refusals import refusal

if TYPE_CHECKING:
    from rehearsal.engine.wait.waiter import Waiter
    from rehearsal.engine.wait.watching import Key

Object = dict[str, Any]

_OWN_NOTHING: Final = ("ConfigMap", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Secret", "Service", "ServiceAccount")


def delete(api: Api, waiter: Waiter, key: Key, resource: Resource, live: Object, *, limit: float, childless: bool = False) -> None:
    """Delete `live` and what it owns, and return when it is gone; `childless` says that nothing is left that it owns.

    Raises ObjectFailed when it is still there after `limit` seconds.
    """
    uid = live["metadata"]["uid"]
    options = {"propagationPolicy": _propagation(live, childless=childless), "preconditions": {"uid": uid}}
    try:
        api.request("DELETE", resource.path(key.namespace, key.name), options)
    except ApiError as error:
        # Not found: gone already. Conflict: the name is another object's now, and ours is gone.
        if error.status not in (404, 409):
            raise refusal(error) from error
        return
    waiter.gone(key, uid, live["apiVersion"], limit)


def _propagation(live: Object, *, childless: bool) -> str:
    # The provider deletes in the foreground; where nothing is owned that only costs a turn of the garbage collector.
    given = annotation(live, "pulumi.com/deletionPropagation").capitalize()
    if given in ("Orphan", "Background"):
        return given
    # The garbage collector learns of a new kind up to 30 s late, and would hold such an object until then.
    childless = childless or (live["apiVersion"] == "v1" and live["kind"] in _OWN_NOTHING)
    return "Background" if childless else "Foreground"
