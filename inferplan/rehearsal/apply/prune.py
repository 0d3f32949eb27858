"""Delete the objects in a journal that are no longer declared, dependents first, also protected
ones, for which the reason says so.
"""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import astuple, dataclass, field
from typing import Final

from inferplan.errors import ObjectFailed
from inferplan.kube.contents import CONTAINERS, Identity, foreign_contents
from inferplan.rehearsal.apply.journal import Entry, Journal
from inferplan.rehearsal.apply.objects import Objects
from inferplan.rehearsal.wait.object_events import ApplyFailed, Deleted, Deleting, Failed, Target
from inferplan.rehearsal.wait.timeouts import limit_of
from inferplan.tables import table

_KEEP: Final = (
    "move or delete these objects, or repeat the command with --keep-namespace, which leaves all of"
    " them where they are"
)
_RANKS: Final = table("rehearsal/apply/ranks.toml")


def waves(entries: Collection[Entry]) -> list[list[Entry]]:
    """`entries` in groups to delete one after the other; the objects of a group can be deleted at
    the same time.
    """
    groups: list[list[Entry]] = []
    for rank in sorted({_RANKS.get(each.key.kind, 0) for each in entries}):
        groups.extend(_waves([each for each in entries if _RANKS.get(each.key.kind, 0) == rank]))
    return groups


def _waves(entries: list[Entry]) -> list[list[Entry]]:
    present = {each.urn for each in entries}
    dependents: dict[str, int] = dict.fromkeys(present, 0)
    for each in entries:
        for urn in set(each.state.dependencies) & present:
            dependents[urn] += 1
    groups: list[list[Entry]] = []
    left = sorted(entries, key=lambda each: -each.order)
    while left:
        free = [each for each in left if dependents[each.urn] == 0] or left[
            :1
        ]  # programs cannot declare cycles; do not hang on one
        groups.append(free)
        keys = {each.key for each in free}
        left = [each for each in left if each.key not in keys]
        for each in free:
            for urn in set(each.state.dependencies) & present:
                dependents[urn] -= 1
    return groups


def identity_of(entry: Entry) -> Identity:
    return entry.api_version.rpartition("/")[0], *astuple(entry.key)


def target_of(entry: Entry) -> Target:
    return Target(entry.key.kind, entry.key.namespace, entry.key.name, entry.urn)


@dataclass(kw_only=True)
class Pruner:
    """Deletes entries of `journal` from the cluster, then from the journal."""

    objects: Objects
    journal: Journal
    kept: Collection[str] = ()
    """Names of namespaces and definitions that stay, and are forgotten."""
    workers: int = 64
    _entries: Collection[Entry] = ()
    _failures: list[Failed] = field(default_factory=list)
    _deleted: list[Target] = field(default_factory=list)

    def prune(self, entries: Collection[Entry], *, reason: str) -> tuple[Target, ...]:
        """Delete `entries`. The dependencies of an object that cannot be deleted stay. Raises
        ApplyFailed at the end.
        """
        blocked: set[str] = set()
        for each in (
            each for each in entries if each.key.kind in CONTAINERS and each.key.name in self.kept
        ):
            self.journal.gone(each.key)
        recorded = self.journal.entries()
        entries = [each for each in entries if each.key in recorded]
        self._entries = entries
        self._check_contents(entries)
        with ThreadPoolExecutor(self.workers, thread_name_prefix="delete") as pool:
            for wave in waves(entries):
                self._delete_wave(
                    pool, [each for each in wave if each.urn not in blocked], reason, blocked
                )
        if self._failures:
            raise ApplyFailed(self._failures, ())
        return tuple(self._deleted)

    def _check_contents(self, entries: Collection[Entry]) -> None:
        """Raise ApplyFailed before anything is deleted if an object that the run did not create
        would be deleted with its container.
        """
        for each in (each for each in entries if each.key.kind in CONTAINERS):
            if contents := foreign_contents(
                self.objects.api.get, identity_of(each), self._own(each)
            ):
                self._failures.append(
                    Failed(
                        target=target_of(each),
                        message=f"{contents}\nNothing was deleted",
                        remedy=_KEEP,
                    )
                )
        if self._failures:
            raise ApplyFailed(self._failures, ())

    def _delete_wave(
        self, pool: ThreadPoolExecutor, wave: Sequence[Entry], reason: str, blocked: set[str]
    ) -> None:
        running: dict[Future[tuple[bool, float]], Entry] = {
            pool.submit(self._delete, each, reason): each for each in wave
        }
        for future in as_completed(running):
            entry = running[future]
            target = target_of(entry)
            try:
                existed, seconds = future.result()
            except ObjectFailed as failed:
                blocked.update(entry.state.dependencies)
                self._failures.append(
                    Failed(target=target, message=failed.message, remedy=failed.remedy)
                )
                self.objects.waiter.listener(self._failures[-1])
            else:
                if existed:
                    self._deleted.append(target)
                    self.objects.waiter.listener(Deleted(target=target, seconds=seconds))

    def _check_empty(self, entry: Entry) -> None:
        """Raise ObjectFailed if another program put an object into the container since the run
        began to delete.
        """
        if contents := foreign_contents(
            self.objects.api.get, identity_of(entry), self._own(entry), after=True
        ):
            raise ObjectFailed(str(contents), _KEEP)

    def _own(self, container: Entry) -> set[Identity]:
        """The objects that this run deletes, and those of the stack of `container`."""
        stack = container.urn.split("::")[:2]
        of_stack = (
            each for each in self.journal.entries().values() if each.urn.split("::")[:2] == stack
        )
        return {identity_of(each) for each in (*self._entries, *of_stack)}

    def _delete(self, entry: Entry, reason: str) -> tuple[bool, float]:
        """Returns True if the object existed, and the seconds until it was gone."""
        began = time.monotonic()
        try:
            resource = self.objects.api.resource(entry.api_version, entry.key.kind)
            live = self.objects.get(resource, entry.key)
        except LookupError:
            live = None  # the kind was deleted with its definition, and so were its objects
        else:
            if live is not None and entry.key.kind in CONTAINERS:
                self._check_empty(entry)
            if live is not None:
                self.objects.waiter.listener(
                    Deleting(target=target_of(entry), reason=reason + _difference(entry))
                )
                self.objects.delete(entry.key, resource, live, limit_of(entry.state.delete_timeout))
        self.journal.gone(entry.key)
        return live is not None, time.monotonic() - began


def _difference(entry: Entry) -> str:
    if entry.key.kind in CONTAINERS:
        # Pulumi leaves it, and the command that removes the stack deletes it as this one does.
        return ""
    if entry.state.protect:
        return " (it is protected: a real update would fail)"
    if entry.state.retain_on_delete:
        return " (it is marked retainOnDelete: a real update would leave it)"
    return ""
