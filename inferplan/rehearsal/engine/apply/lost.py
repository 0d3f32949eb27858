"""Finds the objects that a rehearsal applied to a cluster and that its journal does not name, by their field manager."""

from collections.abc import Collection, Iterator

from inferplan.rehearsal.cluster.api import Api, ApiError
from inferplan.rehearsal.engine.apply.journal import Journal, is_applied
from inferplan.rehearsal.engine.wait.object_events import Key, key_of


def adopt_lost(api: Api, journal: Journal) -> list[Key]:
    """Add each object that was applied and is not in `journal` to it; returns their keys."""
    lost = list(unrecorded(api, journal.entries()))
    for key, api_version in lost:
        journal.adopt(key, api_version)
    return [key for key, _ in lost]


def unrecorded(api: Api, recorded: Collection[Key]) -> Iterator[tuple[Key, str]]:
    """Each object in the cluster that a rehearsal applied and that is not `recorded`, with its API version."""
    listed: set[tuple[str, str]] = set()
    for (api_version, kind), resource in api.kinds().items():
        if (about := (api_version.rpartition("/")[0], kind)) in listed:
            continue
        listed.add(about)
        try:
            items = api.request("GET", resource.path()).get("items") or ()
        except ApiError:
            continue  # kinds that are only created, such as reviews of access
        for each in items:
            key = key_of({**each, "kind": kind})
            if is_applied(each) and key not in recorded:
                yield key, api_version
