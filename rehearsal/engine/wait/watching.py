"""The cluster's state as a live copy: one watch a kind, begun when first asked for, and wake-ups for those who wait.

Whoever waits for an object names it and sleeps until something about it changes: the object itself, what it owns
(the pods of a Deployment), or an event about either. Nothing is polled. It only reads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rehearsal.cluster.api import Api, ApiError, Watch
from rehearsal.engine.wait.idle import Standstill

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]

_AGAIN_SECONDS: Final = 0.2
_GIVE_UP_SECONDS: Final = 20.0
# Their news change nothing: what is said about an object, and a node that reports that it is still there.
_NO_MOVE: Final = ("Event", "Node")


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """An object's name in the cluster; `namespace` is "" for kinds without one."""

    kind: str
    namespace: str
    name: str


def key_of(live: Object) -> Key:
    """The key of a live object."""
    metadata = live["metadata"]
    return Key(live["kind"], metadata.get("namespace", ""), metadata["name"])


@dataclass(eq=False)
class _Collection:
    """One kind's live copy. `by_owner` finds objects by the uid of what they belong to."""

    path: str
    kind: str
    api_version: str
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    by_owner: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    synced: threading.Event = field(default_factory=threading.Event)
    watch: Watch | None = None


class Watching:
    """Live copies of collections of the cluster behind `api`, and how long nothing in them has moved. Close it when done."""

    def __init__(self, api: Api) -> None:
        self.standstill = Standstill()
        self._api = api
        self._collections: dict[str, _Collection] = {}
        self._sleepers: dict[Key, set[threading.Event]] = defaultdict(set)
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._lost = threading.Event()

    @property
    def stopped(self) -> bool:
        """Whether everybody who waits should give up."""
        return self._stopped.is_set()

    @property
    def lost(self) -> bool:
        """Whether the API server has been out of reach for so long that it is not coming back."""
        return self._lost.is_set()

    def observe(self, api_version: str, kind: str) -> None:
        """Begin to follow `kind` unless that is done already; returns when the copy is complete. Raises ApiError."""
        with self._lock:
            collection = self._collections.get(kind)
            if collection is None:
                path = self._api.resource(api_version, kind).path()
                collection = self._collections[kind] = _Collection(path=path, kind=kind, api_version=api_version)
                threading.Thread(target=self._follow, args=(collection,), name=f"watch-{kind}", daemon=True).start()
        collection.synced.wait()

    def get(self, key: Key) -> Object | None:
        """The object, or None; its kind must be observed."""
        with self._lock:
            return self._collections[key.kind].objects.get((key.namespace, key.name))

    def owned(self, kind: str, uid: str) -> list[Object]:
        """The objects of an observed `kind` that belong to the object with `uid`, in the order of their names."""
        with self._lock:
            collection = self._collections.get(kind)
            if collection is None:
                return []
            return [collection.objects[each] for each in sorted(collection.by_owner.get(uid, ()))]

    @contextlib.contextmanager
    def sleeper(self, key: Key) -> Iterator[threading.Event]:
        """An event that is set whenever something about `key` changes (and when all is over)."""
        wake = threading.Event()
        with self._lock:
            self._sleepers[key].add(wake)
        try:
            yield wake
        finally:
            with self._lock:
                self._sleepers[key].discard(wake)

    def stop(self) -> None:
        """End all watches and wake everybody who waits."""
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
            # Whoever waits for a copy that never got complete finds out by itself that all is over.
            collection.synced.set()

    def _keep_up(self, collection: _Collection) -> None:
        silent_since = time.monotonic()
        while not self.stopped:
            with contextlib.suppress(ApiError):
                version = self._fill(collection)
                while version and not self.stopped:
                    silent_since = time.monotonic()
                    version = self._drain(collection, version)
                    silent_since = time.monotonic()
            if time.monotonic() - silent_since > _GIVE_UP_SECONDS:
                self._lost.set()
                self._wake_all()
            # Only an API server that refuses or is gone brings us here; it is asked again a little later.
            self._stopped.wait(_AGAIN_SECONDS)

    def _fill(self, collection: _Collection) -> str:
        listed = self._api.request("GET", collection.path)
        with self._lock:
            gone = dict(collection.objects)
            for each in listed["items"]:
                live: Object = {"apiVersion": collection.api_version, "kind": collection.kind, **each}
                gone.pop((live["metadata"].get("namespace", ""), live["metadata"]["name"]), None)
                self._keep(collection, live)
            for live in gone.values():
                self._drop(collection, live)
        collection.synced.set()
        return listed["metadata"]["resourceVersion"]

    def _drain(self, collection: _Collection, version: str) -> str:
        """Follow until the watch ends; the version to go on from, "" when the copy must be made anew."""
        watch = self._api.watch(collection.path, {"resourceVersion": version, "timeoutSeconds": "290"})
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
        collection.objects[name] = live
        for uid in _owner_uids(live):
            collection.by_owner[uid].add(name)
        self._wake(live)

    def _drop(self, collection: _Collection, live: Object) -> None:
        name = (live["metadata"].get("namespace", ""), live["metadata"]["name"])
        collection.objects.pop(name, None)
        for uid in _owner_uids(live):
            collection.by_owner[uid].discard(name)
        self._wake(live)

    def _wake(self, live: Object) -> None:
        if live["kind"] not in _NO_MOVE:
            self.standstill.moved()
        pending, seen = [key_of(live)], set()
        while pending:
            key = pending.pop()
            if key in seen:
                continue
            seen.add(key)
            for wake in self._sleepers.get(key, ()):
                wake.set()
            known = live if key == key_of(live) else self._known(key)
            pending.extend(_owner_keys(known) if known else ())

    def _known(self, key: Key) -> Object | None:
        collection = self._collections.get(key.kind)
        return collection.objects.get((key.namespace, key.name)) if collection else None


def _owner_uids(live: Object) -> list[str]:
    if live["kind"] == "Event":
        return [live.get("involvedObject", {}).get("uid", "")]
    return [each["uid"] for each in live["metadata"].get("ownerReferences") or ()]


def _owner_keys(live: Object) -> list[Key]:
    if live["kind"] == "Event":
        about = live.get("involvedObject", {})
        return [Key(about.get("kind", ""), about.get("namespace", ""), about.get("name", ""))]
    namespace = live["metadata"].get("namespace", "")
    return [Key(each["kind"], namespace, each["name"]) for each in live["metadata"].get("ownerReferences") or ()]
