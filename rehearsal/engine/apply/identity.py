"""The objects of each URN, by Pulumi's rules: a resource is identified by its URN, not by the name of its object.

Rules (pulumi 3.260, step_generator.go; pulumi-kubernetes 4.32, provider.go; 2026-11): an old object of a URN is deleted after the
next successful update, and keeps its name until then. An object of no resource must not exist when it is created. An automatic
name stays until the object is replaced; the new object is then created first.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from rehearsal.engine.apply.journal import Entry, Journal
from rehearsal.engine.plan.steps import already_exists
from rehearsal.engine.wait.object_events import Key
from rehearsal.engine.wire.recording import Registration
from rehearsal.errors import ObjectFailed


class Inventory:
    """The objects in `journal` when a run starts, by URN and by key."""

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


def fresh_name(registration: Registration) -> str:
    return f"{registration.name}-{secrets.token_hex(4)}"
