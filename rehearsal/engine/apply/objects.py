"""Single objects of the cluster: apply one, delete one, and say what that changed.

Server-side apply with a field manager of our own; the request that creates is the request that updates. It never
takes a field from another manager unless the program asks for it, with the annotation `pulumi.com/patchForce` or by the
provider's `enablePatchForce`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kube.paths import with_values_of
from rehearsal.cluster.api import Api, ApiError, Resource, UnknownKindError
from rehearsal.engine.apply.deletion import delete
from rehearsal.engine.apply.fields import without_others
from rehearsal.engine.apply.operators import stub
from rehearsal.engine.wait.errors import ObjectFailed
from rehearsal.engine.wait.readiness import annotation, unready
from rehearsal.engine.wait.refusals import is_immutable, objection_of, refusal
from rehearsal.engine.wait.watching import Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from rehearsal.engine.wait.object_events import ChangeKind
    from rehearsal.engine.wait.waiter import Waiter

Object = dict[str, Any]

MANAGER: Final = "inferplan-rehearsal"
_NAMESPACE_SECONDS: Final = 30.0
_VOLATILE: Final = ("resourceVersion", "managedFields", "generation", "selfLink")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A live object and what applying changed; `note` says why an object was replaced."""

    live: Object
    change: ChangeKind
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How an object is applied.

    `limit` is how many seconds a deletion may take, `ignore` the paths at which a live object stays as it is, `force`
    whether declared fields are taken from other managers.
    """

    limit: float
    ignore: tuple[str, ...] = ()
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """Applies to and deletes from the cluster behind `api`.

    `ensure_crds` is told the API group of a kind that is missing, and returns whether it installed its definitions.
    """

    api: Api
    waiter: Waiter
    ensure_crds: Callable[[str], bool] | None = None

    def resource(self, api_version: str, kind: str) -> Resource:
        """How the server serves a kind. Raises ObjectFailed that names the missing definition's group."""
        group = api_version.rpartition("/")[0]
        try:
            return self.api.resource(api_version, kind)
        except UnknownKindError as missing:
            if self.ensure_crds is not None and "." in group and self.ensure_crds(group):
                try:
                    return self.api.resource(api_version, kind)
                except UnknownKindError:
                    pass
            raise ObjectFailed(
                f"the cluster serves no {missing}: the CustomResourceDefinition of group {group or 'core'} is not installed",
                f"declare the definitions of {group or 'that kind'} before it, or add them to the rehearsal's table of definitions",
            ) from missing

    def get(self, resource: Resource, key: Key) -> Object | None:
        """The live object, None when it is not there. Raises ObjectFailed."""
        try:
            return self.api.request("GET", resource.path(key.namespace, key.name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise refusal(error) from error

    def apply(
        self,
        body: Object,
        key: Key,
        resource: Resource,
        *,
        replace: str,
        known: bool,
        same: bool = False,
        manner: Manner,
    ) -> Result:
        """Make the object what `body` says.

        `replace` says why it must be deleted first ("" when not), `known` that an earlier run applied it, `same` that it
        did so with this very declaration. Raises ObjectFailed.
        """
        limit, ignore, force = manner.limit, manner.ignore, manner.force or _forces(body)
        before = self.get(resource, key) if known or replace or ignore else None
        replace = replace or ("" if before is None else unready(body, before))
        if before is not None and not replace:
            body = with_values_of(before, body, ignore)
            if same and force and _holds(before, body):
                # As the provider does. To force what nobody changed would undo what others put into lists that are owned whole.
                return Result(live=before, change="unchanged")
        if before is not None and replace:
            objection = self._objection(body, key, resource)
            self.delete(key, resource, before, limit)
            note = f"{replace}; {objection}" if objection else replace
            return Result(live=self._send(body, key, resource, force=force)[0], change="replaced", note=note)
        try:
            live, created = self._send(body, key, resource, force=force)
        except ApiError as error:
            if not is_immutable(error):
                raise refusal(error) from error
            existing = self.get(resource, key)
            if existing is None:
                raise refusal(error) from error
            self.delete(key, resource, existing, limit)
            return Result(live=self._send(body, key, resource, force=force)[0], change="replaced", note=objection_of(error))
        if created:
            return Result(live=live, change="created")
        if before is None:
            return Result(live=live, change="changed", note="it was there already and is managed from now on")
        return Result(live=live, change="unchanged" if _content(before, MANAGER) == _content(live, MANAGER) else "changed")

    def _objection(self, body: Object, key: Key, resource: Resource) -> str:
        """What the server itself says of a change that the provider answers with a replacement, "" when it would take it."""
        try:
            self.api.apply(resource.path(key.namespace, key.name), body, manager=MANAGER, force=True, dry_run=True)
        except ApiError as error:
            return objection_of(error) if is_immutable(error) else ""
        return ""

    def _send(self, body: Object, key: Key, resource: Resource, *, force: bool) -> tuple[Object, bool]:
        path = resource.path(key.namespace, key.name)
        try:
            live, created = self.api.apply(path, body, manager=MANAGER, force=force)
        except ApiError as error:
            if not (error.status == 404 and error.details.get("kind") == "namespaces"):
                raise
            # The namespace may be on its way, declared without an edge to what lives in it.
            if not self.waiter.exists(Key("Namespace", "", key.namespace), "v1", _NAMESPACE_SECONDS):
                raise
            live, created = self.api.apply(path, body, manager=MANAGER, force=force)
        if resource.kind == "Node" and "status" in body:
            live = self._node_status(body, path, live)
        return live, created

    def _node_status(self, body: Object, path: str, live: Object) -> Object:
        # A node's own request never carries its status; and what kwok made up meanwhile has to give way.
        del live
        status = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": body["metadata"]["name"]}, "status": body["status"]}
        return self.api.apply(f"{path}/status", status, manager=MANAGER, force=True)[0]

    def patch(self, body: Object, key: Key, resource: Resource, urn: str) -> Result:
        """Own the fields in `body` of an object that something else made (the provider's Patch resources)."""
        before, manager = self.get(resource, key), patch_manager(urn)
        force = _forces(body)
        try:
            live, created = self.api.apply(resource.path(key.namespace, key.name), body, manager=manager, force=force)
        except ApiError as error:
            raise refusal(error) from error
        same = before is not None and _content(before, manager) == _content(live, manager)
        return Result(live=live, change="created" if created else "unchanged" if same else "changed")

    def unpatch(self, key: Key, resource: Resource, live: Object, urn: str) -> None:
        """Give up the fields of `live` that a Patch resource owned."""
        body = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": {"name": key.name}}
        try:
            self.api.apply(resource.path(key.namespace, key.name), body, manager=patch_manager(urn), force=True)
        except ApiError as error:
            raise refusal(error) from error

    def delete(self, key: Key, resource: Resource, live: Object, limit: float) -> None:
        """Delete `live` and what it owns, and return when it is gone. Raises ObjectFailed after `limit` seconds."""
        operated = stub.operated(live)
        if operated:
            stub.dismantle(self.api, self.waiter, live, limit)
        delete(self.api, self.waiter, key, resource, live, limit=limit, childless=operated)


def patch_manager(urn: str) -> str:
    """The field manager of a Patch resource: one each, so that giving up its fields leaves those of others."""
    return f"{MANAGER}-{hashlib.sha256(urn.encode()).hexdigest()[:8]}"


def _forces(body: Object) -> bool:
    return annotation(body, "pulumi.com/patchForce") == "true"


def _holds(live: Any, declared: Any) -> bool:
    """Whether `live` is as `declared`, whatever else others added to its maps."""
    if isinstance(declared, dict) and isinstance(live, dict):
        return all(key in live and _holds(live[key], value) for key, value in declared.items())
    if isinstance(declared, list) and isinstance(live, list):
        return len(declared) == len(live) and all(map(_holds, live, declared))
    return bool(live == declared)


def _content(live: Object, manager: str) -> Object:
    # Controllers write beside us at any time: labels and taints of a node, annotations of whatever they look after.
    ours = without_others(live, manager)
    metadata = {name: value for name, value in ours["metadata"].items() if name not in _VOLATILE}
    content = {name: value for name, value in ours.items() if name not in ("metadata", "status")}
    if live["kind"] == "Node":
        status = live.get("status") or {}
        content["status"] = {name: status.get(name) for name in ("capacity", "allocatable")}
    return {**content, "metadata": metadata}
