"""The owner of each field of a Kubernetes object: the stack, a scaler, a controller, the API
server, or people.

A field that is not in the table belongs to the program that declares it, which is the stack for
everything in its file. Field managers are named by their programs: `metadata.managedFields` has one
entry for each, with the fields that it wrote.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from inferplan.kube.names import QUEUE_LABEL
from inferplan.kube.paths import MISSING, Path, covers, mapping, parse
from inferplan.tables import table


class Owner(StrEnum):
    STACK = "stack"
    SCALER = "scaler"
    CONTROLLER = "controller"
    SERVER = "server"
    PEOPLE = "people"


SCALED: Final = {
    "Deployment": ("spec.replicas",),
    "LeaderWorkerSet": ("spec.replicas",),
    "StatefulSet": ("spec.replicas",),
}
"""By kind, the paths that a scaler owns (a HorizontalPodAutoscaler, KEDA) in an object that it
scales.

Declare the minimum in these fields, and list them in `ignore_changes`. Both engines write it when
they create the object, keep the live value while no one else has written the field, and send
nothing once a scaler has. An object that stopped declaring `spec.replicas` would drop to one
replica, because server-side apply removes what its owner no longer declares (seen with provider
4.32). Ray's autoscaler changes the RayCluster that KubeRay creates, and never our RayService.
"""

SCALER_BOUNDS: Final = {
    "HorizontalPodAutoscaler": (("minReplicas", 1), ("maxReplicas", 1)),
    "ScaledObject": (("minReplicaCount", 0), ("maxReplicaCount", 100)),
}
"""By kind of a scaler, the fields of the least and the most replicas, each with its default."""

_QUEUED: Final = (
    "spec.suspend",
    "spec.template.spec.nodeSelector",
    "spec.template.spec.tolerations",
)
"""Paths that Kueue changes in a Job that it admits: it starts the Job, and places its pods on the
nodes of a flavor.
"""

_ADDED_BY_ANYONE: Final = tuple(map(parse, ("metadata.labels", "metadata.annotations")))
"""Maps to which anyone may add keys."""

NODE_TAINTS: Final = (
    *("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/"),
    *("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"),
)
"""Starts of the keys of taints that controllers add to nodes."""

_SCALE: Final = "scale"


def owner_of(kind: str, path: Path, *, queued: bool = False) -> Owner:
    if queued and any(covers(parse(text), path) for text in _QUEUED):
        return Owner.CONTROLLER
    return next((owner for pattern, owner in _rules_of(kind) if covers(pattern, path)), Owner.STACK)


def anyone_adds(kind: str, path: Path, *, queued: bool = False) -> bool:
    """Return True if others may set a value at `path` that the stack does not declare: another
    label, or a field of a controller.
    """
    return (
        any(covers(pattern, path) for pattern in _ADDED_BY_ANYONE)
        or owner_of(kind, path, queued=queued) is not Owner.STACK
    )


def manager_of(name: str, subresource: str = "") -> Owner:
    """Return the owner that the field manager `name` acts for, writing through `subresource` or the
    object itself.
    """
    managers = table("kube/field_owners.toml")["managers"]
    owner = Owner(
        next(
            (
                each
                for each, patterns in managers.items()
                if any(fnmatchcase(name, pattern) for pattern in patterns)
            ),
            "people",
        )
    )
    if owner is Owner.STACK:
        return owner
    if owner is Owner.CONTROLLER and subresource == _SCALE:
        return Owner.SCALER
    return Owner.CONTROLLER if owner is Owner.PEOPLE and subresource not in ("", _SCALE) else owner


@cache
def _rules_of(kind: str) -> tuple[tuple[Path, Owner], ...]:
    owners = table("kube/field_owners.toml")["owners"]
    rules = (rule for each in ("*", kind) for rule in owners.get(each, {}).items())
    return tuple((parse(path), Owner(owner)) for owner, paths in rules for path in paths)


@dataclass(frozen=True, slots=True)
class Writer:
    """A field manager, its operation (Apply or Update), the subresource that it wrote ("" for the
    object itself), and the last time.
    """

    manager: str
    operation: str
    subresource: str
    time: str


_TAKEN_OVER = ("kubectl", "before-first-apply")
"""Starts of the managers whose fields the provider takes over before it updates an object
(pulumi-kubernetes 4.32, fixCSAFieldManagers).
"""


def is_taken_over(writer: Writer) -> bool:
    """True if the fields of `writer` become the stack's when an update changes the object."""
    return (
        writer.manager.startswith(_TAKEN_OVER)
        and writer.operation == "Update"
        and not writer.subresource
    )


def entries(live: Mapping[str, Any]) -> Iterator[tuple[Writer, Mapping[str, Any]]]:
    """The writers of `live` with their fields in the server's notation (FieldsV1)."""
    for each in live["metadata"].get("managedFields") or ():
        yield (
            Writer(
                each["manager"],
                each["operation"],
                each.get("subresource", ""),
                each.get("time", ""),
            ),
            each.get("fieldsV1") or {},
        )


def writers(live: Mapping[str, Any], path: Path) -> list[Writer]:
    """The writers of the field at `path` of `live`, the latest first: of the field itself, or of
    the list or map that it is in.
    """
    matches = [writer for writer, fields in entries(live) if _writes(live, fields, path)]
    return sorted(matches, key=lambda each: each.time, reverse=True)


def _writes(value: Any, fields: Mapping[str, Any], path: Path) -> bool:
    if not path or not fields:
        # A leaf of the notation is written as a whole, with everything below it.
        return True
    for key, below in fields.items():
        part, child = step(value, key)
        if part == path[0] and child is not MISSING and _writes(child, below, path[1:]):
            return True
    return False


def step(value: Any, key: str) -> tuple[str | int, Any]:
    """The part of a path that `key` of the notation means inside `value`, and the value there,
    which may be MISSING.
    """
    kind, _, name = key.partition(":")
    if kind == "f":
        return name, value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
    if kind in ("k", "v") and isinstance(value, list):
        wanted = json.loads(name)
        for index, each in enumerate(value):
            if each == wanted if kind == "v" else _has(each, wanted):
                return index, each
    return "", MISSING


def _has(item: Any, keys: Mapping[str, Any]) -> bool:
    """True if `item` is the one of `keys`; a key that a declaration leaves to the server's default
    does not count.
    """
    return (
        isinstance(item, Mapping)
        and any(key in item for key in keys)
        and all(item.get(key, value) == value for key, value in keys.items())
    )


def undeclared(
    live: Any, fields: Mapping[str, Any], declared: Any, path: Path = ()
) -> Iterator[tuple[Path, Any]]:
    """Each part of `live` that a manager of `fields` wrote and `declared` lacks, as its path and
    value.
    """
    for key, below in fields.items():
        part, value = step(live, key)
        if value is MISSING:
            continue
        _, ours = step(declared, key)
        here = (*path, part)
        if ours is MISSING and (not below or (not key.startswith("f:") and "." in below)):
            yield here, value
        elif below:
            yield from undeclared(value, below, {} if ours is MISSING else ours, here)


def is_queued(body: Mapping[str, Any]) -> bool:
    """True if the declared object waits in a queue of Kueue."""
    return any(
        QUEUE_LABEL in mapping(body, *path, "metadata", "labels")
        for path in ((), ("spec", "template"))
    )


def additions(
    live: Mapping[str, Any], declared: Mapping[str, Any]
) -> Iterator[tuple[Writer, Path, Any]]:
    """Each value that people added to `live` and `declared` lacks, as the writer, the path and the
    value, without labels and fields of others.
    """
    for writer, fields in entries(live):
        if manager_of(writer.manager, writer.subresource) is Owner.PEOPLE:
            for path, value in undeclared(live, fields, declared):
                if (
                    not anyone_adds(live["kind"], path, queued=is_queued(declared))
                    and value is not None
                ):
                    yield writer, path, value
