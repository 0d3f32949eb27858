"""What was applied to a cluster, kept beside the cluster so that pruning and `down` know everything, whatever happened.

One line of JSON a fact, appended and fsync'd *before* the API server is asked: an object that may exist is always in
here, so that a process killed at any moment leaves nothing unknown behind. The inventory is keyed by the object's
identity (kind, namespace, name), not by its URN: a renamed object stays in it under its old identity until that is
deleted. A last line torn by a crash is dropped: what it announced was not asked for yet. The journal names the
cluster by uid and is ignored for any other; inputs are masked, keyed by that uid, and the file is readable by its
owner only. It holds nothing about resources that are not Kubernetes objects: they exist nowhere.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Final

from rehearsal.engine.plan.states import ResourceState, resource_from_json, resource_to_json
from rehearsal.engine.wait.watching import Key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FORMAT: Final = "inferplan-journal/1"
_FILE: Final = "applied.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One object that is, or may be, in the cluster.

    `state` is what was last asked for; `done` once the server agreed, `existed` if it had agreed to an earlier request.
    """

    key: Key
    api_version: str
    order: int
    state: ResourceState
    done: bool = False
    existed: bool = False

    @property
    def made(self) -> bool:
        """Whether the object was there once; a creation that was cut off may have come to nothing."""
        return self.done or self.existed

    @property
    def urn(self) -> str:
        """The resource that declared the object."""
        return self.state.urn


class Journal:
    """The journal in `directory` for the cluster whose uid is `cluster`. One process may have it open at a time."""

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
        """Every object that is or may be in the cluster."""
        with self._lock:
            return dict(self._entries)

    def entry(self, key: Key) -> Entry | None:
        """What is known about `key`."""
        with self._lock:
            return self._entries.get(key)

    def intend(self, key: Key, api_version: str, state: ResourceState) -> None:
        """Announce that `key` is about to be applied; on disk when this returns. Raises OSError (a full disk)."""
        with self._lock:
            self._order += 1
            entry = _intended(self._entries.get(key), key, api_version, self._order, state)
            self._entries[key] = entry
            position = self._append(_to_json(entry, "intend"))
        self._sync(position)

    def applied(self, key: Key) -> None:
        """Note that the server agreed. Losing this note in a crash costs a repeated request, so that it is not synced."""
        with self._lock:
            entry = self._entries[key]
            self._entries[key] = replace(entry, done=True)
            self._append({"fact": "applied", "key": _key_to_json(key)})

    def gone(self, key: Key) -> None:
        """Note that the object is deleted."""
        with self._lock:
            self._entries.pop(key, None)
            position = self._append({"fact": "gone", "key": _key_to_json(key)})
        self._sync(position)

    def close(self) -> None:
        """Write the inventory anew without its history, and let go of the file."""
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
        # Many threads announce at once; the first to get here makes the disk wait for all of them.
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
            announced, agreed = _to_json(entry, "intend"), {"fact": "applied", "key": _key_to_json(entry.key)}
            facts += [announced, agreed] if entry.made else [announced]
            facts += [announced] if entry.made and not entry.done else []
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
    """What the journal in `directory` says about the cluster with uid `cluster`, in the order of application.

    Only reads, so that it may be called while another process works. Empty when there is no journal for that cluster.
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
        state = resource_from_json(fact["state"])
        entries[key] = _intended(entries.get(key), key, fact["apiVersion"], fact["order"], state)
    elif fact["fact"] == "gone":
        entries.pop(key, None)
    elif key in entries:
        entries[key] = replace(entries[key], done=True)


def _intended(earlier: Entry | None, key: Key, api_version: str, order: int, state: ResourceState) -> Entry:
    return Entry(key=key, api_version=api_version, order=order, state=state, existed=earlier is not None and earlier.made)


def _key_to_json(key: Key) -> list[str]:
    return [key.kind, key.namespace, key.name]


def _to_json(entry: Entry, fact: str) -> dict[str, Any]:
    return {
        "fact": fact,
        "key": _key_to_json(entry.key),
        "apiVersion": entry.api_version,
        "order": entry.order,
        "state": resource_to_json(entry.state),
    }
