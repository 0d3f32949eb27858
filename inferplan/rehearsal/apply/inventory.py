"""The objects that belong to the resources of a program, by the journal, and those that it does not
name, by their field manager.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from inferplan.errors import ObjectFailed
from inferplan.kube.api import Api, ApiError
from inferplan.kube.field_owners import entries as field_entries
from inferplan.pulumi_engine.plan.states import ResourceState
from inferplan.pulumi_engine.plan.steps import already_exists
from inferplan.pulumi_engine.providers.kubernetes import is_autonamed, metadata_of
from inferplan.pulumi_engine.recording import Registration
from inferplan.rehearsal.apply.journal import ADOPTED, MANAGER, Entry, Journal
from inferplan.rehearsal.wait.object_events import Key, key_of


class Inventory:
    """The objects in `journal` when a run starts, by URN and by key: a resource is identified by
    its URN, not by the name of its object.

    Rules (pulumi 3.260, step_generator.go; pulumi-kubernetes 4.32, provider.go; 2026-11): an old
    object of a URN is deleted after the next successful update, and keeps its name until then. An
    object of no resource must not exist when it is created. An automatic name stays until the
    object is replaced; the new object is then created first.
    """

    def __init__(self, journal: Journal) -> None:
        self._by_urn: dict[str, list[Entry]] = defaultdict(list)
        self._by_key: dict[Key, Entry] = {}
        for entry in sorted(journal.entries().values(), key=lambda each: each.order):
            self._by_urn[entry.urn].append(entry)
            self._by_key[entry.key] = entry

    def current(self, registration: Registration, key: Key | None = None) -> Entry | None:
        """The current object of the resource, None if it has none; one whose creation was
        interrupted counts only if it is `key`.
        """
        for urn in (registration.urn, *registration.options.aliases):
            entries = self._by_urn.get(urn)
            if entries:
                interrupted = [
                    each for each in entries if each.key == key and not each.existed_once
                ]
                created = [each for each in entries if each.existed_once]
                return (interrupted or created or entries)[-1]
        adopted = self._by_urn.get(ADOPTED, ())
        return next(
            (each for each in adopted if each.key == key or _is_named(each.key, registration)), None
        )

    def conflict(
        self, key: Key, registration: Registration, live: Mapping[str, Any] | None
    ) -> ObjectFailed | None:
        """The error with which Pulumi would not create the object `key` with the state `live`, or
        None.
        """
        holder = self._by_key.get(key)
        if holder is None or (live is None and not holder.existed_once):
            if live is None or is_applied(live):
                return None
            message = f"{key} already exists in the cluster, and this stack did not create it"
            if live is not None and _is_pulumis(live):
                stack = registration.urn.split(":")[2]
                return ObjectFailed(
                    f"{key} already exists in the cluster, and the Pulumi CLI created it",
                    "continue with --engine pulumi, or remove its objects first: inferplan down"
                    f" {stack} --engine pulumi",
                )
            adopt = ", or set inferplan:adoptNamespace: true" if key.kind == "Namespace" else ""
            return ObjectFailed(
                message, f"give it another name, or delete the existing object{adopt}"
            )
        current = self.current(registration, key)
        if holder.urn == ADOPTED or (current is not None and current.key == key):
            return None
        return ObjectFailed(*already_exists(str(key), holder.urn, registration.urn))


def _is_pulumis(live: Mapping[str, Any]) -> bool:
    """True if Pulumi's Kubernetes provider applied the object."""
    return any(
        str(each.get("manager")).startswith("pulumi-kubernetes")
        for each in live["metadata"].get("managedFields") or ()
    )


def _is_named(key: Key, registration: Registration) -> bool:
    """True if `key` can be the object of `registration` under an automatic name."""
    if key.kind != registration.inputs.get("kind") or not is_autonamed(registration.inputs):
        return False
    same_namespace = metadata_of(registration.inputs).get("namespace") in (None, key.namespace)
    return same_namespace and key.name.rpartition("-")[0] == registration.name


def adopt_lost(api: Api, journal: Journal) -> list[Key]:
    """Add each object that was applied and is not in `journal` to it; returns their keys."""
    lost = list(unrecorded(api, journal.entries()))
    for key, api_version in lost:
        journal.intend(
            key,
            api_version,
            ResourceState(
                urn=ADOPTED, type=f"kubernetes:{api_version}:{key.kind}", custom=True, inputs={}
            ),
        )
        journal.applied(key)
    return [key for key, _ in lost]


def unrecorded(
    api: Api, recorded: Collection[Key], kinds: Collection[str] | None = None
) -> Iterator[tuple[Key, str]]:
    """Each object in the cluster, of `kinds` or of any, that a rehearsal applied and that is not
    `recorded`, with its API version.
    """
    listed: set[tuple[str, str]] = set()
    for (api_version, kind), resource in api.kinds().items():
        about = (api_version.rpartition("/")[0], kind)
        if not resource.patched or about in listed or (kinds is not None and kind not in kinds):
            continue
        listed.add(about)
        try:
            items = api.metadata(resource.path())
        except ApiError:
            continue  # its definition has been deleted
        for each in items:
            key = key_of({**each, "kind": kind})
            if is_applied(each) and key not in recorded:
                yield key, api_version


def is_applied(live: Mapping[str, Any]) -> bool:
    """True if a rehearsal applied `live`, by its field manager, and no other object owns it."""
    writers = (writer for writer, _ in field_entries(live))
    return any(
        (each.manager, each.operation) == (MANAGER, "Apply") for each in writers
    ) and not live["metadata"].get("ownerReferences")
