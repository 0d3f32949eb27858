"""Fields of an object by owner, from `metadata.managedFields`. Pure functions."""

import copy
from collections.abc import Iterable
from typing import Any

from inferplan.kube.field_owners import entries, is_taken_over, step, writers
from inferplan.kube.paths import MISSING, parse, with_values_of

Object = dict[str, Any]

# The server's name for the owner of fields from before the first apply. It is not a real manager.
_UNOWNED = "before-first-apply"
_VOLATILE = ("resourceVersion", "managedFields", "generation", "selfLink")


def without_others(live: Object, manager: str) -> Object:
    """A copy of `live` without the fields that a field manager other than `manager` owns, alone or
    together with it.
    """
    left = copy.deepcopy(live)
    for entry in live["metadata"].get("managedFields") or ():
        if entry["manager"] not in (manager, _UNOWNED):
            _strip(left, entry.get("fieldsV1") or {})
    return left


def _strip(value: Any, owned: Object) -> None:
    for key, below in owned.items():
        part, child = step(value, key)
        if child is not MISSING and _emptied(child, below):
            del value[part]


def _emptied(value: Any, owned: Object) -> bool:
    if not owned:
        return True
    _strip(value, owned)
    return value in ({}, [])


def with_ignored(live: Object, body: Object, paths: Iterable[str], manager: str) -> Object:
    """A copy of `body` that changes nothing at `paths`, by the provider's rule (pulumi-kubernetes
    4.32, handleSSAIgnoreFields).

    It has the live values of fields that `manager` or no one wrote, and leaves out those that only
    others wrote.
    """
    paths = tuple(paths)
    others = [
        each
        for each in paths
        if (names := {by.manager for by in writers(live, parse(each))}) and manager not in names
    ]
    return with_values_of({}, with_values_of(live, body, paths), others)


def taken_over(live: Object, manager: str) -> list[Object] | None:
    """The `managedFields` of `live` with kubectl's fields given to `manager`, so that an apply sets
    them back; None if there are none.
    """
    mine: Object = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": live["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": {},
    }
    left = []
    taken = False
    for (writer, fields), entry in zip(
        entries(live), live["metadata"].get("managedFields") or (), strict=True
    ):
        is_mine = writer.manager == manager and writer.operation == "Apply"
        is_theirs = is_taken_over(writer)
        if is_mine or is_theirs:
            mine = {**mine, "fieldsV1": _union(mine["fieldsV1"], dict(fields))}
            taken = taken or is_theirs
        else:
            left.append(entry)
    return [mine, *left] if taken else None


def _union(one: Object, other: Object) -> Object:
    return {**one, **{key: _union(one.get(key, {}), below) for key, below in other.items()}}


def contains(live: Any, declared: Any) -> bool:
    """True if `live` has the values of `declared`; its maps may have further keys."""
    if isinstance(declared, dict) and isinstance(live, dict):
        return all(key in live and contains(live[key], value) for key, value in declared.items())
    if isinstance(declared, list) and isinstance(live, list):
        return len(declared) == len(live) and all(map(contains, live, declared))
    return bool(live == declared)


def content_of(live: Object, manager: str = "") -> Object:
    """The fields of `live`, with `manager` those that it alone owns: controllers write labels,
    taints and annotations at any time.
    """
    ours = without_others(live, manager) if manager else live
    metadata = {name: value for name, value in ours["metadata"].items() if name not in _VOLATILE}
    content = {name: value for name, value in ours.items() if name not in ("metadata", "status")}
    if live["kind"] == "Node":
        status = live.get("status") or {}
        content["status"] = {name: status.get(name) for name in ("capacity", "allocatable")}
    return {**content, "metadata": metadata}
