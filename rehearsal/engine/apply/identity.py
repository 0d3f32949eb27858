"""Which object a resource has, by Pulumi's rules: identity is the URN, whatever the object is called.

Rules of the engine and the provider (pulumi 3.260, step_generator.go; pulumi-kubernetes 4.32, provider.go; read 2026-11):
what a URN had under another name waits for its deletion until an update has succeeded and keeps its name until then; an
object that no resource of this URN has must not exist when it is created; an automatic name is kept until the object is
replaced, and the new object is then created first.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rehearsal.engine.plan.steps import already_exists
from rehearsal.engine.wait.errors import ObjectFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rehearsal.engine.apply.journal import Entry, Journal
    from rehearsal.engine.wait.watching import Key
    from rehearsal.engine.wire.recording import Registration


class Holdings:
    """The objects of every URN, as the last run left them in `journal`."""

    def __init__(self, journal: Journal) -> None:
        self._entries: dict[str, list[Entry]] = defaultdict(list)
        self._keys: dict[Key, Entry] = {}
        for entry in sorted(journal.entries().values(), key=lambda each: each.order):
            self._entries[entry.urn].append(entry)
            self._keys[entry.key] = entry

    def current(self, registration: Registration, key: Key | None = None) -> Entry | None:
        """The object that the resource has, None when it has none. What it had before that waits for deletion.

        An object whose creation was cut off belongs to it only if it is the one that is wanted now, `key`.
        """
        for urn in (registration.urn, *registration.options.aliases):
            entries = self._entries.get(urn)
            if entries:
                cut_off = [each for each in entries if each.key == key and not each.made]
                made = [each for each in entries if each.made]
                return (cut_off or made or entries)[-1]
        return None

    def objection(self, key: Key, registration: Registration, live: Mapping[str, Any] | None) -> ObjectFailed | None:
        """Why Pulumi could not create the object `key`, whose live state is `live`; None when it could."""
        holder = self._keys.get(key)
        if holder is None or (live is None and not holder.made):
            return None if live is None else _stranger(key)
        current = self.current(registration, key)
        return None if current is not None and current.key == key else _held(key, holder, registration)


def fresh_name(registration: Registration) -> str:
    """An automatic name that no object has had, as the provider makes one."""
    return f"{registration.name}-{secrets.token_hex(4)}"


def _held(key: Key, holder: Entry, registration: Registration) -> ObjectFailed:
    return ObjectFailed(*already_exists(_text(key), holder.urn, registration.urn))


def _stranger(key: Key) -> ObjectFailed:
    return ObjectFailed(
        f"{_text(key)} already exists in the cluster, and this stack did not create it",
        "give it another name, or delete it if nothing needs it",
    )


def _text(key: Key) -> str:
    return f"{key.kind} {key.namespace}/{key.name}" if key.namespace else f"{key.kind} {key.name}"
