"""A simulated cluster for one audit: it applies and deletes single objects, stubs volumes and
webhooks, and waits until nothing moves.
"""

import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from inferplan.audit.admission import await_policies
from inferplan.audit.history import History
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.merge import patch
from inferplan.audit.scaling import is_unscaled
from inferplan.audit.standstill import (
    await_programs,
    is_outdated,
    is_unbound,
    is_uncounted,
    patiently,
    retry_passed_over,
)
from inferplan.audit.templates import TABLE, body_of
from inferplan.errors import ClusterError, ObjectFailed
from inferplan.kube.api import Api, ApiError, Resource, UnknownKindError
from inferplan.kube.field_owners import entries
from inferplan.progress import silent
from inferplan.rehearsal.apply.claims import stub_volume
from inferplan.rehearsal.apply.objects import Objects, put
from inferplan.rehearsal.apply.operators import reconcile
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.cluster.components import COMPONENTS, health_url
from inferplan.rehearsal.wait import reasons
from inferplan.rehearsal.wait.object_events import Key
from inferplan.rehearsal.wait.readiness import Readiness, operator_readiness, rule_for
from inferplan.rehearsal.wait.waiter import Waiter
from inferplan.rehearsal.wait.watching import Watching

_QUIET_SECONDS: Final = 6.0
"""The scheduler retries a pending pod every 2 s, so nothing follows after this time without a
change, if the cluster states why an object waits.
"""
_UNSTATED_SECONDS: Final = 18.0
"""The same without a stated reason: a busy controller has not looked at the object yet."""
_TURN_SECONDS: Final = 40.0
"""The same while an autoscaler (every 15 s) or the scheduler (every 30 s) has to look again."""
_RANDOM: Final = re.compile(
    r"\bpods? \"?([\w.-]+?)(?:-[0-9a-f]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}\b\"?"
)
_DISPLACING: Final = re.compile(r"[.,]? (?:no new claims to deallocate, )?preemption: [^;]*")
_STATED: Final = ("Deployment", "StatefulSet", "DaemonSet", "Job", "Pod", "PersistentVolumeClaim")
"""Kinds of whose objects the API or an event states why they wait."""
_CALM_SECONDS: Final = 0.6
_PAUSE_SECONDS: Final = 0.15
_DELETE_SECONDS: Final = 20.0


class Session:
    """The cluster of one audit. Objects without a namespace are applied in `namespace`."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        install: Callable[[str], bool],
        operated: Mapping[str, Collection[str]],
    ) -> None:
        self.namespace = namespace
        self._health = [each for name in COMPONENTS if (each := health_url(name, cluster))]
        self.operated = operated  # kinds whose operator runs, with the conditions that it sets
        self.history = History()
        self.api: Api = cluster.api()
        self.version = cluster.version
        self.watching = Watching(self.api, self.history.look)
        self.waiter = Waiter(
            api=self.api, watching=self.watching, listener=silent, inspect="kubectl"
        )
        self.objects = Objects(api=self.api, waiter=self.waiter, ensure_crds=install)
        self.stubs: dict[Key, str] = {}
        """Objects whose operator a stub replaces, each with the stub's note."""
        self._applied: dict[Key, int] = {}
        """The versions of applied objects that the watches have not shown yet."""
        self._policies = ""
        """The version of an admission policy that the API server may not enforce yet."""
        self._lists: dict[Resource, dict[tuple[str, str], Object]] = {}
        """Copies of whole kinds, so that an audit does not ask for each object by itself; `settle`
        forgets them.
        """
        for api_version, kind in TABLE["watched"]:
            self.watching.observe(api_version, kind)

    def close(self) -> None:
        self.watching.stop()
        self.api.close()

    def resource(self, manifest: Manifest) -> Resource:
        """The API resource of `manifest`; pinned definitions are installed. Raises ObjectFailed."""
        return self.objects.resource(manifest.api_version, manifest.kind)

    def key(self, manifest: Manifest) -> Key:
        """The identity of `manifest` in the cluster; with a namespace if no version of its kind is
        served.
        """
        try:
            namespaced = self.resource(manifest).namespaced
        except (ObjectFailed, ClusterError, ApiError):
            namespaced = all(
                each.namespaced
                for (_, kind), each in self.api.kinds().items()
                if kind == manifest.kind
            )
        return Key(
            manifest.kind,
            (manifest.namespace or self.namespace) if namespaced else "",
            manifest.name,
        )

    def put(self, body: Object) -> Object:
        """Apply an object of the audit's own, such as a node. Raises ApiError."""
        resource = self.api.resource(body["apiVersion"], body["kind"])
        path = resource.path(body["metadata"].get("namespace", ""), body["metadata"]["name"])
        live, _ = patiently(
            partial(put, self.api, path, body, manager="inferplan-audit", force=True)
        )
        self._make_account(live)
        return live

    def _make_account(self, live: Object) -> None:
        """Make the account of a new namespace, which a busy controller makes late: until then no pod
        is created in it, and its controller tries that again ever later.
        """
        if live["kind"] == "Namespace":
            metadata = {"name": "default", "namespace": live["metadata"]["name"]}
            with contextlib.suppress(ApiError):
                self.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})

    def apply(
        self, manifest: Manifest, manager: str, *, dry_run: bool = False, old: Object | None = None
    ) -> Object:
        """Apply `manifest` on the server's side; by a three-way merge if `old` is its earlier
        declaration, {} for none.

        Returns the live object. Raises ApiError, ObjectFailed.
        """
        resource, key = self.resource(manifest), self.key(manifest)
        body = body_of(manifest, key)
        # Servers of webhooks do not run here, and without an answer the API server rejects
        # everything.
        dry_run = dry_run or manifest.kind in TABLE["admission"]
        path, query = (
            resource.path(key.namespace, key.name),
            {"fieldManager": manager, "fieldValidation": "Strict"},
        )
        query |= {"dryRun": "All"} if dry_run else {}
        before, send = self.get(key, manifest.api_version), None
        if old is None:
            send = partial(self.api.apply, path, body, manager=manager, force=True, dry_run=dry_run)
        elif before is None:
            path = resource.path(key.namespace)
            send = partial(self.api.request, "POST", path, body, query=query)
        elif changes := patch(before, old, body):
            media = "application/merge-patch+json"
            send = partial(self.api.request, "PATCH", path, changes, query=query, media=media)
        with self.watching.idle.busy():
            answer = patiently(send) if send else (before or {})
        live: Object = answer[0] if isinstance(answer, tuple) else answer
        if not dry_run:
            self._make_account(live)
            self._applied[key] = int(live["metadata"]["resourceVersion"])
            if manifest.kind.startswith("ValidatingAdmissionPolicy"):
                self._policies = live["metadata"]["resourceVersion"]
            self._list(resource)[key.namespace, key.name] = live
        return live

    def contested(self, manifest: Manifest, live: Object, manager: str) -> list[tuple[str, str]]:
        """The fields of the object `live` that another manager set otherwise, each with the API
        server's words.
        """
        if all(_is_own(each.manager, manager) for each, _ in entries(live)):
            return []
        key = self.key(manifest)
        try:
            path = self.resource(manifest).path(key.namespace, key.name)
            self.api.apply(path, body_of(manifest, key), manager=manager, dry_run=True)
        except ApiError as error:
            causes = error.details.get("causes") or () if error.reason == "Conflict" else ()
            several = [
                (str(each.get("field", "")).lstrip("."), str(each.get("message", "")))
                for each in causes
            ]
            return [
                each
                for each in several
                if not (
                    (other := re.search(r'with "([^"]+)"', each[1])) and _is_own(other[1], manager)
                )
            ]
        return []

    def get(self, key: Key, api_version: str) -> Object | None:
        """The object as it was when its kind was last read, with what this session changed since; None
        also if its definition is gone.
        """
        try:
            resource = self.api.resource(api_version, key.kind)
        except UnknownKindError:
            return None
        return self._list(resource).get((key.namespace, key.name))

    def _list(self, resource: Resource) -> dict[tuple[str, str], Object]:
        if resource not in self._lists:
            # Nothing reports when the storage of a new definition is ready.
            items = patiently(partial(self.api.request, "GET", resource.path()))["items"]
            self._lists[resource] = {
                (each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
                for each in items
            }
        return self._lists[resource]

    def delete(self, manifest: Manifest) -> str:
        """Delete an object and wait until it is gone; the reason if that takes too long, else "".
        Raises ObjectFailed if it cannot be read.
        """
        resource, key = self.resource(manifest), self.key(manifest)
        self._list(resource).pop((key.namespace, key.name), None)
        live = self.objects.get(resource, key)
        try:
            if live is not None:
                self.waiter.delete(key, resource, live, limit=_DELETE_SECONDS, childless=True)
        except ObjectFailed as error:
            return error.message
        return ""

    def settle(self, keys: Iterable[tuple[str, Key]], limit: float) -> dict[Key, str]:
        """Wait until each of `keys` (with its API version) is ready or nothing moves any more.
        Returns those that are not, and why.
        """
        watched = [
            (version, key)
            for version, key in keys
            if self._rule(key, {"apiVersion": version, "kind": key.kind})
        ]
        for version, kind in dict.fromkeys((version, key.kind) for version, key in watched):
            with contextlib.suppress(ApiError, UnknownKindError):
                self.watching.observe(version, kind)
        deadline, is_sure = time.monotonic() + limit, False
        if self._policies:
            await_policies(self.api, self.put, self._policies, deadline)
            self._policies = ""
        while True:
            self.history.changed.clear()
            while self.history.claims:
                # No watch shows volumes, and a busy controller binds one late.
                claim = self.history.claims.popleft()
                name = str(claim["spec"].get("storageClassName"))
                with contextlib.suppress(ApiError), self.watching.idle.busy():
                    kind = self.get(Key("StorageClass", "", name), "storage.k8s.io/v1") or {}
                    self.put(stub_volume(claim, kind.get("allowedTopologies") or ()))
            waiting = dict(self._unready(watched))
            turn = is_unscaled(self.watching) or is_outdated(self.watching)
            quiet = self.watching.idle.seconds
            is_sure = is_sure and quiet > _CALM_SECONDS
            calm = (
                quiet >= _CALM_SECONDS
                and not (waiting or turn)
                and not is_uncounted(self.watching, self.history)
            )
            if waiting and quiet >= _CALM_SECONDS and self.history.freed:
                self.history.freed = False
                retry_passed_over(self.api, self.watching)
                continue
            if calm or quiet >= _QUIET_SECONDS or time.monotonic() >= deadline:
                seen = {key: live for key in waiting if (live := self.watching.get(key))}
                causes = {key: reasons.why(self.watching, live)[0] for key, live in seen.items()}
                late = any(key.kind in _STATED and not cause for key, cause in causes.items())
                late = (late or is_unbound(self.watching)) and quiet < _UNSTATED_SECONDS
                late = late or (turn and quiet < _TURN_SECONDS)
                late = late and time.monotonic() < deadline
                if not (calm or late or is_sure):
                    await_programs(self.api, self.put, self._health)
                    is_sure = True
                elif calm or not late:
                    self._lists.clear()
                    return waiting | {
                        key: _unnamed(reasons.explained(self.watching, live, waiting[key])[0])
                        for key, live in seen.items()
                    }
            self.history.changed.wait(min(_CALM_SECONDS, deadline - time.monotonic()))
            time.sleep(
                _PAUSE_SECONDS
            )  # a hundred changes a second do not need a hundred passes over all objects

    def _unready(self, keys: Iterable[tuple[str, Key]]) -> Iterator[tuple[Key, str]]:
        for version, key in keys:
            live = self.watching.get(key)
            # A busy API server sends watch events late.
            late = key in self._applied and (
                live is None or int(live["metadata"]["resourceVersion"]) < self._applied[key]
            )
            if late and (
                live is not None
                or self.objects.get(self.api.resource(version, key.kind), key) is not None
            ):
                yield key, "its change is not visible yet"
                continue
            self._applied.pop(key, None)
            if (
                live is not None
                and (rule := self._rule(key, live)) is not None
                and not (state := rule(live)).ready
            ):
                yield key, state.why

    def _rule(self, key: Key, live: Object) -> Callable[[Object], Readiness] | None:
        if conditions := self.operated.get(live["kind"]):
            return partial(operator_readiness, conditions)
        return partial(self._advance, key) if reconcile.has_stub(live) else rule_for(live)

    def _advance(self, key: Key, live: Object) -> Readiness:
        """The readiness of an object after one turn of the stub of its operator."""
        note = ""
        try:
            state, note = reconcile.advance(self.api, self.waiter, live, _DELETE_SECONDS)
        except ObjectFailed as error:
            state = Readiness(why=error.message)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            state = Readiness(why=f"the stub of its operator cannot read it: {error!r}")
        self.stubs[key] = note or self.stubs.get(key, "")
        return state


def _unnamed(reason: str) -> str:
    """`reason` without what differs from run to run: the random part of pods' names, and the
    scheduler's words on pods that it could displace.
    """
    return _DISPLACING.sub("", _RANDOM.sub(r"a pod of \1", reason))


def _is_own(name: str, manager: str) -> bool:
    """True for the deployer's own field manager, for the audit's, and for the controllers of
    Kubernetes, whose changes `later_owners` judges.
    """
    return name in (
        manager,
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
    ) or name.startswith("inferplan-")
