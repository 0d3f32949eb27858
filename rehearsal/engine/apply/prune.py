"""Deletes what a journal knows and nobody declares any more, dependents before what they depend on.

In a rehearsal everything goes that is not declared, also what is marked `protect` or `retainOnDelete`: nothing here
is worth keeping, and a reader is told where a real update would differ.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rehearsal.engine.wait.durations import seconds_of
from rehearsal.engine.wait.errors import Failure, ObjectFailed
from rehearsal.engine.wait.object_events import Deleted, Deleting, Failed, Listener, Target
from rehearsal.engine.wait.watching import Key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rehearsal.engine.apply.journal import Entry, Journal
    from rehearsal.engine.apply.objects import Objects

DELETE_SECONDS: Final = 600.0
# What holds others goes after them even when no edge says so: pods need their node to end on, claims their pods gone.
_RANKS: Final = {
    "PersistentVolumeClaim": 1,
    "ServiceAccount": 1,
    "PersistentVolume": 2,
    "ResourceQuota": 2,
    "Namespace": 3,
    "Node": 4,
    "StorageClass": 4,
    "CustomResourceDefinition": 4,
}
PATCH_SUFFIX: Final = "Patch"


def waves(entries: Collection[Entry]) -> list[list[Entry]]:
    """`entries` in groups to delete one after the other; what is in one group may go at once."""
    found: list[list[Entry]] = []
    for rank in sorted({_rank(each) for each in entries}):
        found.extend(_waves([each for each in entries if _rank(each) == rank]))
    return found


def _rank(entry: Entry) -> int:
    return _RANKS.get(entry.key.kind, 0)


def _waves(entries: list[Entry]) -> list[list[Entry]]:
    present = {each.urn for each in entries}
    dependents: dict[str, int] = dict.fromkeys(present, 0)
    for each in entries:
        for urn in set(each.state.dependencies) & present:
            dependents[urn] += 1
    found: list[list[Entry]] = []
    left = sorted(entries, key=lambda each: -each.order)
    while left:
        free = [each for each in left if dependents[each.urn] == 0] or left[:1]  # a cycle cannot be declared; one lost edge must not hang
        found.append(free)
        left = [each for each in left if each not in free]
        for each in free:
            for urn in set(each.state.dependencies) & present:
                dependents[urn] -= 1
    return found


def target_of(entry: Entry) -> Target:
    """How an entry is named to a person."""
    return Target(urn=entry.urn, kind=entry.key.kind, namespace=entry.key.namespace, name=entry.key.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was deleted, and what could not be."""

    deleted: tuple[Target, ...]
    failures: tuple[Failure, ...]


@dataclass(kw_only=True)
class Pruner:
    """Deletes entries of `journal` from the cluster and strikes them out."""

    objects: Objects
    journal: Journal
    listener: Listener
    workers: int = 64
    _failures: list[Failure] = field(default_factory=list)
    _deleted: list[Target] = field(default_factory=list)

    def prune(self, entries: Collection[Entry], *, reason: str) -> Pruned:
        """Delete `entries`. A failure holds back what the failed object depends on, nothing else."""
        held: set[str] = set()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="delete") as pool:
            for wave in waves(entries):
                ready = [each for each in wave if each.urn not in held]
                self._delete_wave(pool, ready, reason, held)
        return Pruned(deleted=tuple(self._deleted), failures=tuple(self._failures))

    def _delete_wave(self, pool: ThreadPoolExecutor, wave: Sequence[Entry], reason: str, held: set[str]) -> None:
        running: Mapping[Future[tuple[bool, float]], Entry] = {pool.submit(self._delete, each, reason): each for each in wave}
        left = set(running)
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            for future in done:
                entry = running[future]
                target = target_of(entry)
                try:
                    existed, seconds = future.result()
                except ObjectFailed as failed:
                    held.update(entry.state.dependencies)
                    self._failures.append(Failure(target=target, message=failed.message, remedy=failed.remedy))
                    self.listener(Failed(target=target, message=failed.message, remedy=failed.remedy))
                else:
                    if existed:
                        self._deleted.append(target)
                        self.listener(Deleted(target=target, seconds=seconds))

    def _delete(self, entry: Entry, reason: str) -> tuple[bool, float]:
        """Whether the object was there, and the seconds until it was gone."""
        began = time.monotonic()
        patch = entry.key.kind.endswith(PATCH_SUFFIX)
        key = Key(entry.key.kind.removesuffix(PATCH_SUFFIX), entry.key.namespace, entry.key.name) if patch else entry.key
        try:
            resource = self.objects.api.resource(entry.api_version, key.kind)
            live = self.objects.get(resource, key)
        except LookupError:
            live = None  # the kind went with its definition, and the object with the kind
        else:
            if live is not None:
                self.listener(Deleting(target=target_of(entry), reason=reason + _differs(entry)))
                if patch:
                    self.objects.unpatch(key, resource, live, entry.urn)
                else:
                    self.objects.delete(key, resource, live, _limit(entry))
        self.journal.gone(entry.key)
        return live is not None, time.monotonic() - began


def _limit(entry: Entry) -> float:
    given = entry.state.delete_timeout
    return seconds_of(given) if given else DELETE_SECONDS


def _differs(entry: Entry) -> str:
    if entry.state.protect:
        return " (it is protected: a real update would refuse)"
    if entry.state.retain_on_delete:
        return " (it is marked retainOnDelete: a real update would leave it)"
    return ""
