"""Apply (server-side, with our field manager, by force only on request) and delete single objects,
and report what changed.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from inferplan.errors import ObjectFailed
from inferplan.kube.api import Api, ApiError, Resource, UnknownKindError
from inferplan.kube.field_owners import additions, is_taken_over
from inferplan.kube.objects import annotation
from inferplan.rehearsal.apply import claims
from inferplan.rehearsal.apply.fields import Object, contains, content_of, taken_over, with_ignored
from inferplan.rehearsal.apply.journal import MANAGER
from inferplan.rehearsal.apply.operators import reconcile
from inferplan.rehearsal.wait.object_events import ChangeKind, Key
from inferplan.rehearsal.wait.readiness import unready
from inferplan.rehearsal.wait.reasons import immutable_fields, is_immutable, rejection
from inferplan.rehearsal.wait.waiter import Waiter

_NAMESPACE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A live object and the change; `note` is the reason for a replacement."""

    live: Object
    change: ChangeKind
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Options of an apply: seconds for a deletion, why to replace first, what an earlier run
    applied, paths to ignore, and force.
    """

    intend: Callable[[], None]
    """Records the object on disk; called before the first request that changes something."""
    limit: float
    replace: str = ""
    exists: bool = False
    same: bool = False
    ignore: tuple[str, ...] = ()
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """Applies and deletes objects of the cluster behind `api`; `ensure_crds` as in `apply`."""

    api: Api
    waiter: Waiter
    ensure_crds: Callable[[str], bool] | None = None

    def resource(self, api_version: str, kind: str) -> Resource:
        """The API resource of a kind. Raises ObjectFailed with the group of a missing definition."""
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
                f"the cluster does not serve {missing}: the CustomResourceDefinition of group"
                f" {group or 'core'} is not installed",
                f"declare the definitions of {group or 'that kind'} before it, or add them to"
                " inferplan/rehearsal/toolchain/crds.toml",
            ) from missing

    def get(self, resource: Resource, key: Key) -> Object | None:
        """The live object or None. Raises ObjectFailed."""
        try:
            return self.api.request("GET", resource.path(key.namespace, key.name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise rejection(error) from error

    def apply(
        self,
        body: Object,
        key: Key,
        resource: Resource,
        manner: Manner,
    ) -> Result:
        """Apply `body`. Raises ObjectFailed."""
        limit, ignore, force = (
            manner.limit,
            manner.ignore,
            manner.force or annotation(body, "pulumi.com/patchForce") == "true",
        )
        before = self.get(resource, key) if manner.exists or manner.replace or ignore else None
        replace = manner.replace or ("" if before is None else unready(body, before))
        if before is not None and not replace:
            body = with_ignored(before, body, ignore, MANAGER)
            is_current = (
                manner.same
                and force
                and not any(is_taken_over(writer) for writer, _, _ in additions(before, body))
            )
            if is_current and (
                contains(before, body) or not self._would_change(before, body, key, resource)
            ):
                # Taking over fields of kubectl would remove labels, annotations and a restart that
                # people added.
                return Result(live=before, change="unchanged")
        manner.intend()
        if before is not None and replace:
            fields = self._immutable_fields(body, key, resource)
            self.delete(key, resource, before, limit)
            note = f"{replace}; {fields}" if fields else replace
            return Result(
                live=self._send(body, key, resource, force=force)[0], change="replaced", note=note
            )
        try:
            if before is not None and force:
                before = self._take_over(before, key, resource)
            live, created = self._send(body, key, resource, force=force)
        except ApiError as error:
            existing = self.get(resource, key) if is_immutable(error) else None
            if existing is None:
                raise rejection(error) from error
            self.delete(key, resource, existing, limit)
            return Result(
                live=self._send(body, key, resource, force=force)[0],
                change="replaced",
                note=immutable_fields(error),
            )
        if created:
            return Result(live=live, change="created")
        if before is None:
            return Result(
                live=live, change="changed", note="it existed already and is managed from now on"
            )
        return Result(
            live=live,
            change=(
                "unchanged"
                if content_of(before, MANAGER) == content_of(live, MANAGER)
                else "changed"
            ),
        )

    def _would_change(self, live: Object, body: Object, key: Key, resource: Resource) -> bool:
        """True unless applying `body` would leave `live` as it is, with the items that others added
        to its lists.
        """
        try:
            applied, _ = self.api.apply(
                resource.path(key.namespace, key.name),
                body,
                manager=MANAGER,
                force=True,
                dry_run=True,
            )
        except ApiError:
            return True
        return content_of(applied) != content_of(live)

    def _take_over(self, live: Object, key: Key, resource: Resource) -> Object:
        fields = taken_over(live, MANAGER)
        if fields is not None:
            steps = [
                ("managedFields", fields),
                ("resourceVersion", live["metadata"]["resourceVersion"]),
            ]
            patch = [
                {"op": "replace", "path": f"/metadata/{name}", "value": value}
                for name, value in steps
            ]
            with contextlib.suppress(
                ApiError
            ):  # someone changed the object since; the apply decides
                return self.api.request(
                    "PATCH",
                    resource.path(key.namespace, key.name),
                    patch,
                    media="application/json-patch+json",
                )
        return live

    def _immutable_fields(self, body: Object, key: Key, resource: Resource) -> str:
        """The server's reason against updating an object that the provider replaces, "" if the
        server would update it.
        """
        try:
            self.api.apply(
                resource.path(key.namespace, key.name),
                body,
                manager=MANAGER,
                force=True,
                dry_run=True,
            )
        except ApiError as error:
            return immutable_fields(error) if is_immutable(error) else ""
        return ""

    def _send(
        self, body: Object, key: Key, resource: Resource, *, force: bool
    ) -> tuple[Object, bool]:
        path = resource.path(key.namespace, key.name)
        try:
            return put(self.api, path, body, manager=MANAGER, force=force)
        except ApiError as error:
            if not (error.status == 404 and error.details.get("kind") == "namespaces"):
                raise
            # The program may create the namespace at the same time, without a dependency.
            if not self.waiter.exists(
                Key("Namespace", "", key.namespace), "v1", _NAMESPACE_SECONDS
            ):
                raise
            return put(self.api, path, body, manager=MANAGER, force=force)

    def delete(self, key: Key, resource: Resource, live: Object, limit: float) -> None:
        """Delete `live` and its children, and return when it is gone. Raises ObjectFailed after
        `limit` seconds.
        """
        childless = reconcile.delete_children(self.api, self.waiter, live, limit)
        self.waiter.delete(key, resource, live, limit=limit, childless=childless)
        if key.kind == "PersistentVolumeClaim":
            claims.release(self.api, live)


def put(api: Api, path: str, body: Object, *, manager: str, force: bool) -> tuple[Object, bool]:
    """Apply `body`, and the status of a node. Returns the live object, and if it was created.
    Raises ApiError.
    """
    live, created = api.apply(path, body, manager=manager, force=force)
    if body["kind"] == "Node" and "status" in body:
        # The request above does not set the status, and kwok has already written its own.
        status = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": body["metadata"]["name"]},
            "status": body["status"],
        }
        live = api.apply(f"{path}/status", status, manager=manager, force=True)[0]
    return live, created
