"""A bucket, a web server and a hub as the same thing: somewhere that holds a model, gives it out,
and fails as told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from inferplan.components.sources import HubStore, ModelSource, ObjectStore, WebStore

from .proxy import BUCKET, FaultyServer, Proxy
from .rig import MODEL
from .web import COMMIT, REPOSITORY, Commit, Hub, Web

Action = tuple[Any, ...] | None


@dataclass(frozen=True)
class Origin:
    """One of them. `weights` is what a stack says to read the model there."""

    source: ModelSource
    weights: Mapping[str, Any]
    servers: tuple[FaultyServer, ...]
    put: Callable[[Mapping[str, bytes]], None]
    address: Callable[[str], str]
    probes: int
    """How many GETs of the largest file only try what the server can do."""

    def fail(self, plan: Callable[[str, int], Action], path: str = "") -> None:
        """Do what `plan` says to the GETs of one file, or to all; it is given the file's address
        and the number of the GET.
        """
        for server in self.servers:
            server.faults.plan = lambda asked, count: (
                plan(asked, count) if not path or asked == self.address(path) else None
            )

    @property
    def requests(self) -> int:
        """How many times a file was asked for so far."""
        return sum(sum(server.faults.gets.values()) for server in self.servers)

    @property
    def sent(self) -> int:
        """Bytes of files that went out so far, and of lists."""
        return sum(server.faults.body_bytes for server in self.servers)


def bucket_origin(
    store: ObjectStore, proxy: Proxy, put: Callable[[Mapping[str, bytes]], None]
) -> Origin:
    """The bucket, whose objects are compared by what S3 makes their ETags of."""
    return Origin(store, {}, (proxy,), put, lambda path: f"/{BUCKET}/llm/{MODEL}/{path}", 0)


def web_origin(web: Web) -> Origin:
    """The web server, without checksums beside the files."""

    def put(files: Mapping[str, bytes]) -> None:
        web.put(files, f"llm/{MODEL}")

    return Origin(
        WebStore(address=f"{web.url}/llm"), {}, (web,), put, lambda path: f"/llm/{MODEL}/{path}", 2
    )


def hub_origin(hub: Hub) -> Origin:
    """The hub's one repository at its one commit."""
    commit = hub.commits.setdefault(COMMIT, Commit())

    def address(path: str) -> str:
        data = commit.files[path]
        return (
            f"/blobs/{sha256(data).hexdigest()}"
            if hub.is_large(data)
            else f"/{REPOSITORY}/resolve/{COMMIT}/{path}"
        )

    return Origin(
        HubStore(endpoint=hub.url),
        {"path": REPOSITORY, "revision": COMMIT},
        (hub, hub.blobs),
        commit.files.update,
        address,
        0,
    )
