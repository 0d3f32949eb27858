"""The journal of a cluster: every object that a run created or may have created, for pruning and
`down`.

Each line is one fact in JSON, appended and fsync'd *before* the request, so that a run that is
killed leaves no unknown object. All preheats have the same program, so the journal writes a text of
more than 1,024 characters once, and entries refer to it by its SHA-256 digest. An entry whose text
is missing or changed cannot be read.
Entries are keyed by kind, namespace and name, not by URN: a renamed object stays under its old name
until it is deleted. An incomplete last line after a crash is dropped; its request was not sent. The
journal is valid for the cluster with its uid only. The first fact of a run rewrites the file
without its history; a run that changes nothing writes nothing.
A journal that was cut off, replaced or filled with something else is `damaged`; its objects are
found by their field manager (inventory.py), as are those of a journal that is new or that a killed
run left: it is not `settled`.
Inputs are masked with that uid as key, and only the owner can read the file. Resources outside
Kubernetes are not recorded.
"""

import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from inferplan.documents.files import disk_faults
from inferplan.kube import marks
from inferplan.kube.paths import mapped
from inferplan.pulumi_engine.plan.states import ResourceState, resource_from_json, resource_to_json
from inferplan.rehearsal.wait.object_events import Key

MANAGER: Final = "inferplan-rehearsal"
"""The field manager of every object that a rehearsal applies."""
_FORMAT: Final = "inferplan-journal/1"
_FILE: Final = "applied.jsonl"
_LONG: Final = 1024
_TEXT: Final = "inferplan-journal-text"
ADOPTED: Final = "urn:inferplan:adopted"
"""The URN of an object that the rehearsal applied and whose record is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One object that is, or may be, in the cluster: its last request, and whether the server
    accepted it or an earlier one.
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
    """The journal in `directory` of the cluster with uid `cluster`. One process may open it at a
    time. Methods raise DiskFullError.
    """

    def __init__(self, directory: Path, cluster: str) -> None:
        self.path = directory / _FILE
        self._cluster = cluster
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._written = 0
        self._synced = 0
        self._texts: dict[str, str] = {}
        with disk_faults(self.path):
            entries, self.damage, self.settled = load(directory, cluster)
            self._entries = {entry.key: entry for entry in entries}
            self._order = max((entry.order for entry in self._entries.values()), default=0)
            self._file: IO[bytes] | None = self._rewrite() if self.damage else None

    def entries(self) -> dict[Key, Entry]:
        with self._lock:
            return dict(self._entries)

    def intend(self, key: Key, api_version: str, state: ResourceState) -> None:
        """Record, on disk, that `key` will be applied next."""
        with self._lock:
            self._order += 1
            existed = key in self._entries and self._entries[key].existed_once
            entry = Entry(
                key=key, api_version=api_version, order=self._order, state=state, existed=existed
            )
            position = self._append(self._facts(entry))
            self._entries[key] = entry
        self._sync(position)

    def applied(self, key: Key) -> None:
        """Record that the server accepted `key`. Not synced: losing this fact costs one repeated
        request.
        """
        with self._lock:
            entry = self._entries[key]
            if not entry.done:
                self._append([{"fact": "applied", "key": astuple(key)}])
                self._entries[key] = replace(entry, done=True)

    def gone(self, key: Key) -> None:
        with self._lock:
            position = self._append([{"fact": "gone", "key": astuple(key)}])
            self._entries.pop(key, None)
        self._sync(position)

    def close(self) -> None:
        """Rewrite the entries without their history if the run changed any, and close the file."""
        with disk_faults(self.path), self._lock:
            if self._file is not None:
                self._file.close()
                self._rewrite().close()

    def _append(self, facts: Iterable[Mapping[str, Any]]) -> int:
        with disk_faults(self.path):
            if self._file is None:
                self._file = self._rewrite()
            self._written += sum(self._file.write(_line(fact)) for fact in facts)
            return self._written

    def _sync(self, position: int) -> None:
        # Many threads write at once; the first of them syncs for all.
        with disk_faults(self.path), self._sync_lock:
            if self._synced >= position or self._file is None:
                return
            with self._lock:
                reached = self._written
                self._file.flush()
            os.fsync(self._file.fileno())
            self._synced = reached

    def _rewrite(self) -> IO[bytes]:
        fresh = self.path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        file = os.fdopen(descriptor, "wb")
        file.write(
            _line({"format": _FORMAT, "cluster": self._cluster, "entries": len(self._entries)})
        )
        self._texts.clear()
        for entry in sorted(self._entries.values(), key=lambda each: each.order):
            *texts, intent = map(_line, self._facts(entry))
            file.writelines([*texts, intent])
            if entry.existed_once:
                file.write(_line({"fact": "applied", "key": astuple(entry.key)}))
                file.write(b"" if entry.done else intent)
        file.flush()
        os.fsync(file.fileno())
        fresh.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return file

    def _facts(self, entry: Entry) -> Iterator[dict[str, Any]]:
        """The long texts of `entry` that the file does not have yet, then its intent, which refers
        to them.
        """
        state = resource_to_json(entry.state)
        lacking: dict[str, str] = {}

        def refer(value: Any) -> Any:
            if not isinstance(value, str) or len(value) <= _LONG:
                return value
            if value not in self._texts:
                self._texts[value] = lacking[value] = _digest(value)
            return {marks.SIGNATURE: _TEXT, "digest": self._texts[value]}

        state["inputs"] = mapped(state["inputs"], refer)
        yield from (
            {"fact": "text", "digest": digest, "text": text} for text, digest in lacking.items()
        )
        yield {
            "fact": "intend",
            "key": astuple(entry.key),
            "apiVersion": entry.api_version,
            "order": entry.order,
            "state": state,
        }


def _line(fact: Mapping[str, Any]) -> bytes:
    return json.dumps(fact, separators=(",", ":")).encode() + b"\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def load(directory: Path, cluster: str) -> tuple[list[Entry], str, bool]:
    """The entries in the order of application, a sentence about damage, "" if there is none, and if
    the last run closed the journal.

    A journal that is gone or of another cluster has no entries and no damage, and was not closed.
    It only reads.
    """
    entries: dict[Key, Entry] = {}
    path = directory / _FILE
    try:
        first, *lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], "", False
    try:
        head = json.loads(first)
        of_others = (head["format"], head["cluster"]) != (_FORMAT, cluster)
        promised = int(head.get("entries", 0))
    except (ValueError, TypeError, KeyError, AttributeError):
        return [], f"{path} is damaged: its first line is not the head of a journal", False
    if of_others:
        return [], "", False
    unreadable, intents = 0, set()
    texts: dict[str, str] = {}

    def resolved(value: dict[str, Any]) -> Any:
        return texts[value["digest"]] if value.get(marks.SIGNATURE) == _TEXT else value

    # Only a crash leaves text after the last line end.
    for line in lines[:-1]:
        try:
            fact = json.loads(line, object_hook=resolved)
            if fact["fact"] == "text":
                texts[_digest(fact["text"])] = sys.intern(
                    fact["text"]
                )  # programs register the same object
            else:
                _replay(entries, fact)
            if fact["fact"] == "intend":
                intents.add(tuple(fact["key"]))
        except (ValueError, TypeError, KeyError, AttributeError, IndexError):
            unreadable += 1
    missing = max(0, promised - len(intents))
    problems = [f"{unreadable} lines cannot be read"] * (unreadable > 0) + [
        f"{missing} objects are missing"
    ] * (missing > 0)
    damage = f"{path} is damaged: {' and '.join(problems)}" if problems else ""
    return (
        sorted(entries.values(), key=lambda each: each.order),
        damage,
        not damage and promised == len(intents),
    )


def _replay(entries: dict[Key, Entry], fact: Mapping[str, Any]) -> None:
    key = Key(*fact["key"])
    if fact["fact"] == "intend":
        existed = key in entries and entries[key].existed_once
        state = resource_from_json(fact["state"])
        texts = (*astuple(key), fact["apiVersion"], state.urn)
        if not (
            isinstance(state.inputs, dict)
            and isinstance(fact["order"], int)
            and all(isinstance(each, str) for each in texts)
        ):
            raise TypeError("a value of another type")
        entries[key] = Entry(
            key=key,
            api_version=fact["apiVersion"],
            order=fact["order"],
            state=state,
            existed=existed,
        )
    elif fact["fact"] == "gone":
        entries.pop(key, None)
    elif fact["fact"] == "applied" and key in entries:
        entries[key] = replace(entries[key], done=True)
