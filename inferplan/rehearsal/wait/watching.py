"""Live copies of the cluster's objects, one watch per kind, and events that wake the threads that
wait for an object.
"""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from inferplan.kube.api import Api, ApiError, Watch
from inferplan.rehearsal.wait.object_events import Key, key_of
from inferplan.rehearsal.wait.timeouts import IdleClock

Object = dict[str, Any]

_RETRY_SECONDS: Final = 0.2
_GIVE_UP_SECONDS: Final = 20.0
# Changes of these kinds do not make a pod schedulable: a node's are heartbeats.
_IRRELEVANT: Final = ("Event", "Node")
# Events about success explain no delay. They would be half of all events, and each would wake
# threads.
_ROUTINE: Final = ("Scheduled", "SuccessfulCreate", "ScalingReplicaSet", "RegisteredNode", "NoPods")
_QUERIES: Final = {"Event": {"fieldSelector": ",".join(f"reason!={each}" for each in _ROUTINE)}}


@dataclass(eq=False)
class _Collection:
    """The live copy of one kind. `by_owner` maps the uid of an owner to the names of its objects."""

    path: str
    kind: str
    api_version: str
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    by_owner: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    synced: threading.Event = field(default_factory=threading.Event)
    watch: Watch | None = None


class Watching:
    """Live copies of collections behind `api`. Call `stop` at the end.

    `look` gets each state of each object, and whether the object is gone; it must be quick, and
    sends no requests.
    """

    def __init__(
        self, api: Api, look: Callable[[Object, bool], None] = lambda _live, _gone: None
    ) -> None:
        self.idle = IdleClock()
        self._look = look
        self._api = api
        self._collections: dict[str, _Collection] = {}
        self._sleepers: dict[Key, set[threading.Event]] = defaultdict(set)
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._lost = threading.Event()

    @property
    def stopped(self) -> bool:
        """True if every thread that waits must give up."""
        return self._stopped.is_set()

    @property
    def lost(self) -> bool:
        """True if the API server did not answer for 20 seconds."""
        return self._lost.is_set()

    def observe(self, api_version: str, kind: str) -> None:
        """Watch `kind`, and return when its copy is complete. Raises ApiError."""
        with self._lock:
            collection = self._collections.get(kind)
            if collection is None:
                path = self._api.resource(api_version, kind).path()
                collection = self._collections[kind] = _Collection(
                    path=path, kind=kind, api_version=api_version
                )
                threading.Thread(
                    target=self._follow, args=(collection,), name=f"watch-{kind}", daemon=True
                ).start()
        collection.synced.wait()

    def get(self, key: Key) -> Object | None:
        """The object, None if it does not exist, or if no one observes its kind."""
        with self._lock:
            collection = self._collections.get(key.kind)
            return None if collection is None else collection.objects.get((key.namespace, key.name))

    def known(self, kind: str) -> list[Object]:
        """The objects of `kind`, none if no one observes it."""
        with self._lock:
            collection = self._collections.get(kind)
            return [] if collection is None else list(collection.objects.values())

    def owned(self, kind: str, uid: str) -> list[Object]:
        """The objects of an observed `kind` whose owner is `uid`, by name."""
        with self._lock:
            collection = self._collections.get(kind)
            if collection is None:
                return []
            return [collection.objects[each] for each in sorted(collection.by_owner.get(uid, ()))]

    @contextlib.contextmanager
    def sleeper(self, key: Key) -> Iterator[threading.Event]:
        """An event that is set when an object concerning `key` changes, and on `stop`."""
        wake = threading.Event()
        with self._lock:
            self._sleepers[key].add(wake)
        try:
            yield wake
        finally:
            with self._lock:
                self._sleepers[key].discard(wake)

    def stop(self) -> None:
        self._stopped.set()
        with self._lock:
            for collection in self._collections.values():
                if collection.watch is not None:
                    collection.watch.close()
        self._wake_all()

    def _wake_all(self) -> None:
        with self._lock:
            for collection in self._collections.values():
                collection.synced.set()
            for sleepers in self._sleepers.values():
                for wake in sleepers:
                    wake.set()

    def _follow(self, collection: _Collection) -> None:
        try:
            self._keep_up(collection)
        finally:
            # A thread that waits for this copy checks `stopped` itself.
            collection.synced.set()

    def _keep_up(self, collection: _Collection) -> None:
        last_answer = time.monotonic()
        while not self.stopped:
            with contextlib.suppress(ApiError):
                version = self._fill(collection)
                while version and not self.stopped:
                    last_answer = time.monotonic()
                    version = self._drain(collection, version)
                    last_answer = time.monotonic()
            if time.monotonic() - last_answer > _GIVE_UP_SECONDS:
                self._lost.set()
                self._wake_all()
            # The API server failed or is gone: try again a little later.
            self._stopped.wait(_RETRY_SECONDS)

    def _fill(self, collection: _Collection) -> str:
        listed = self._api.request("GET", collection.path, query=_QUERIES.get(collection.kind))
        with self._lock:
            gone = dict(collection.objects)
            for each in listed["items"]:
                live: Object = {
                    "apiVersion": collection.api_version,
                    "kind": collection.kind,
                    **each,
                }
                gone.pop((live["metadata"].get("namespace", ""), live["metadata"]["name"]), None)
                self._keep(collection, live)
            for live in gone.values():
                self._drop(collection, live)
        collection.synced.set()
        return listed["metadata"]["resourceVersion"]

    def _drain(self, collection: _Collection, version: str) -> str:
        """Follow until the watch ends. Returns the version to resume from, "" if the copy must be
        read again.
        """
        watch = self._api.watch(
            collection.path,
            {"resourceVersion": version, "timeoutSeconds": "290"}
            | _QUERIES.get(collection.kind, {}),
        )
        with self._lock:
            collection.watch = watch
        if self.stopped:
            watch.close()
        for type_, live in watch:
            if type_ == "ERROR":
                return ""
            version = live["metadata"]["resourceVersion"]
            with self._lock:
                if type_ == "DELETED":
                    self._drop(collection, live)
                elif type_ != "BOOKMARK":
                    self._keep(collection, live)
        return version

    def _keep(self, collection: _Collection, live: Object) -> None:
        name = (live["metadata"].get("namespace", ""), live["metadata"]["name"])
        live["metadata"].pop(
            "managedFields", None
        )  # half of what a pod weighs, and read only from answers to requests
        collection.objects[name] = live
        for uid, _ in _owners(live):
            collection.by_owner[uid].add(name)
        self._wake(live)
        self._look(live, False)

    def _drop(self, collection: _Collection, live: Object) -> None:
        name = (live["metadata"].get("namespace", ""), live["metadata"]["name"])
        collection.objects.pop(name, None)
        for uid, _ in _owners(live):
            collection.by_owner[uid].discard(name)
        self._wake(live)
        self._look(live, True)

    def _wake(self, live: Object) -> None:
        if live["kind"] not in _IRRELEVANT:
            self.idle.reset()
        pending, seen = [key_of(live)], set()
        while pending:
            key = pending.pop()
            if key in seen:
                continue
            seen.add(key)
            for wake in self._sleepers.get(key, ()):
                wake.set()
            current = live if key == key_of(live) else self._copy(key)
            pending.extend(owner for _, owner in (_owners(current) if current else ()))

    def _copy(self, key: Key) -> Object | None:
        collection = self._collections.get(key.kind)
        return collection.objects.get((key.namespace, key.name)) if collection else None


def _owners(live: Object) -> list[tuple[str, Key]]:
    """Uid and key of the owners of `live`; the owner of an event is the object that it is about."""
    if live["kind"] == "Event":
        about = live.get("involvedObject", {})
        return [
            (
                about.get("uid", ""),
                Key(about.get("kind", ""), about.get("namespace", ""), about.get("name", "")),
            )
        ]
    namespace = live["metadata"].get("namespace", "")
    owners = live["metadata"].get("ownerReferences") or ()
    return [(each["uid"], Key(each["kind"], namespace, each["name"])) for each in owners]
