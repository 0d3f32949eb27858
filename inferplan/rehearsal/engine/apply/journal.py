"""The journal of a cluster: every object that a run created or may have created, for pruning and `down`.

Each line is one fact in JSON, appended and fsync'd *before* the request, so that a run that is killed leaves no unknown object.
Entries are keyed by kind, namespace and name, not by URN: a renamed object stays under its old name until it is deleted. An
incomplete last line after a crash is dropped; its request was not sent. The journal is valid for the cluster with its uid only.
Inputs are masked with that uid as key, and only the owner can read the file. Resources outside Kubernetes are not recorded.
"""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from inferplan.rehearsal.engine.plan.states import ResourceState, resource_from_json, resource_to_json
from inferplan.rehearsal.engine.plan.steps import already_exists
from inferplan.rehearsal.engine.wait.object_events import Key
from inferplan.rehearsal.engine.wire.recording import Registration
from inferplan.rehearsal.errors import ObjectFailed

_FORMAT: Final = "inferplan-journal/1"
_FILE: Final = "applied.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One object that is, or may be, in the cluster.

    `state` is the last request; `done` says that the server accepted it, `existed` that it accepted an earlier one.
    """

    key: Key
    api_version: str
    order: int
    state: ResourceState
    done: bool = False
    existed: bool = False

    @property
    def existed_once(self) -> bool:
        """True if the object existed once; an interrupted creation may have had no effect."""
        return self.done or self.existed

    @property
    def urn(self) -> str:
        return self.state.urn


class Journal:
    """The journal in `directory` of the cluster with uid `cluster`. One process may open it at a time."""

    def __init__(self, directory: Path, cluster: str) -> None:
        self._path = directory / _FILE
        self._cluster = cluster
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._written = 0
        self._synced = 0
        self._entries = {entry.key: entry for entry in read_entries(directory, cluster)}
        self._order = max((entry.order for entry in self._entries.values()), default=0)
        self._file: IO[bytes] = self._rewrite()

    def entries(self) -> dict[Key, Entry]:
        with self._lock:
            return dict(self._entries)

    def intend(self, key: Key, api_version: str, state: ResourceState) -> None:
        """Record, on disk, that `key` will be applied next. Raises OSError (a full disk)."""
        with self._lock:
            self._order += 1
            existed = key in self._entries and self._entries[key].existed_once
            self._entries[key] = Entry(key=key, api_version=api_version, order=self._order, state=state, existed=existed)
            position = self._append(_to_json(self._entries[key]))
        self._sync(position)

    def applied(self, key: Key) -> None:
        """Record that the server accepted `key`. Not synced: losing this fact costs one repeated request."""
        with self._lock:
            entry = self._entries[key]
            self._entries[key] = replace(entry, done=True)
            self._append({"fact": "applied", "key": astuple(key)})

    def gone(self, key: Key) -> None:
        with self._lock:
            self._entries.pop(key, None)
            position = self._append({"fact": "gone", "key": astuple(key)})
        self._sync(position)

    def close(self) -> None:
        """Rewrite the entries without their history, and close the file."""
        with self._lock:
            self._file.close()
            if self._entries:
                self._rewrite().close()
            else:
                self._path.unlink(missing_ok=True)

    def _append(self, fact: Mapping[str, Any]) -> int:
        line = json.dumps(fact, separators=(",", ":")).encode() + b"\n"
        self._file.write(line)
        self._written += len(line)
        return self._written

    def _sync(self, position: int) -> None:
        # Many threads write at once; the first of them syncs for all.
        with self._sync_lock:
            if self._synced >= position:
                return
            with self._lock:
                reached = self._written
                self._file.flush()
            os.fsync(self._file.fileno())
            self._synced = reached

    def _rewrite(self) -> IO[bytes]:
        fresh = self._path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        file = os.fdopen(descriptor, "wb")
        facts: list[dict[str, Any]] = [{"format": _FORMAT, "cluster": self._cluster}]
        for entry in sorted(self._entries.values(), key=lambda each: each.order):
            intent, result = _to_json(entry), {"fact": "applied", "key": astuple(entry.key)}
            facts += [intent, result] if entry.existed_once else [intent]
            facts += [intent] if entry.existed_once and not entry.done else []
        file.writelines(json.dumps(fact, separators=(",", ":")).encode() + b"\n" for fact in facts)
        file.flush()
        os.fsync(file.fileno())
        fresh.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return file


def read_entries(directory: Path, cluster: str) -> list[Entry]:
    """The entries of the cluster with uid `cluster` in the order of application, empty if there is no journal for it.

    Only reads, so another process may have the journal open.
    """
    entries: dict[Key, Entry] = {}
    try:
        lines = (directory / _FILE).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    facts = [fact for fact in map(_fact, lines) if fact is not None]
    if not facts or facts[0] != {"format": _FORMAT, "cluster": cluster}:
        return []
    for fact in facts[1:]:
        _replay(entries, fact)
    return sorted(entries.values(), key=lambda each: each.order)


def _fact(line: bytes) -> dict[str, Any] | None:
    try:
        fact = json.loads(line)
    except ValueError:
        return None
    return fact if isinstance(fact, dict) else None


def _replay(entries: dict[Key, Entry], fact: Mapping[str, Any]) -> None:
    key = Key(*fact["key"])
    if fact["fact"] == "intend":
        existed = key in entries and entries[key].existed_once
        state = resource_from_json(fact["state"])
        entries[key] = Entry(key=key, api_version=fact["apiVersion"], order=fact["order"], state=state, existed=existed)
    elif fact["fact"] == "gone":
        entries.pop(key, None)
    elif key in entries:
        entries[key] = replace(entries[key], done=True)


def _to_json(entry: Entry) -> dict[str, Any]:
    return {
        "fact": "intend",
        "key": astuple(entry.key),
        "apiVersion": entry.api_version,
        "order": entry.order,
        "state": resource_to_json(entry.state),
    }


class Inventory:
    """The objects in `journal` when a run starts, by URN and by key: a resource is identified by its URN, not by the name of its object.

    Rules (pulumi 3.260, step_generator.go; pulumi-kubernetes 4.32, provider.go; 2026-11): an old object of a URN is deleted after the
    next successful update, and keeps its name until then. An object of no resource must not exist when it is created. An automatic
    name stays until the object is replaced; the new object is then created first.
    """

    def __init__(self, journal: Journal) -> None:
        self._by_urn: dict[str, list[Entry]] = defaultdict(list)
        self._by_key: dict[Key, Entry] = {}
        for entry in sorted(journal.entries().values(), key=lambda each: each.order):
            self._by_urn[entry.urn].append(entry)
            self._by_key[entry.key] = entry

    def current(self, registration: Registration, key: Key | None = None) -> Entry | None:
        """The current object of the resource, None if it has none; older objects wait for deletion.

        An object whose creation was interrupted counts only if it is the wanted one, `key`.
        """
        for urn in (registration.urn, *registration.options.aliases):
            entries = self._by_urn.get(urn)
            if entries:
                interrupted = [each for each in entries if each.key == key and not each.existed_once]
                created = [each for each in entries if each.existed_once]
                return (interrupted or created or entries)[-1]
        return None

    def conflict(self, key: Key, registration: Registration, live: Mapping[str, Any] | None) -> ObjectFailed | None:
        """The error with which Pulumi would not create the object `key` with the state `live`, or None."""
        holder = self._by_key.get(key)
        if holder is None or (live is None and not holder.existed_once):
            if live is None:
                return None
            message = f"{key} already exists in the cluster, and this stack did not create it"
            return ObjectFailed(message, "give it another name, or delete the existing object")
        current = self.current(registration, key)
        if current is not None and current.key == key:
            return None
        return ObjectFailed(*already_exists(str(key), holder.urn, registration.urn))
